package gossip

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func TestMetaRoundTrip(t *testing.T) {
	for _, want := range []Meta{
		{Node: "a", Boot: 1, Address: netip.MustParseAddr("10.0.0.1")},
		{Node: "ä/b", Boot: 1<<64 - 1, Address: netip.MustParseAddr("2001:db8::1"), Version: "v1.2.3"},
		{Node: strings.Repeat("n", maxNode), Boot: 7, Address: netip.MustParseAddr("::1"), Version: strings.Repeat("v", maxVersion)},
	} {
		b, err := encode(want), want.check()
		if err != nil {
			t.Fatalf("check %+v: %v", want, err)
		}
		if len(b) > memberlist.MetaMaxSize {
			t.Errorf("%+v: got %d bytes, want at most %d", want, len(b), memberlist.MetaMaxSize)
		}
		if got, err := decodeMeta(b); err != nil || got != want {
			t.Errorf("decodeMeta: got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestMetaRefusals(t *testing.T) {
	good := Meta{Node: "a", Boot: 1, Address: netip.MustParseAddr("10.0.0.1"), Version: "v1"}
	for name, change := range map[string]func(*Meta){
		"no name":       func(m *Meta) { m.Node = "" },
		"long name":     func(m *Meta) { m.Node = strings.Repeat("n", maxNode+1) },
		"name with #":   func(m *Meta) { m.Node = "a#b" },
		"name no UTF-8": func(m *Meta) { m.Node = "\xff" },
		"no boot":       func(m *Meta) { m.Boot = 0 },
		"no address":    func(m *Meta) { m.Address = netip.Addr{} },
		"4 in 6":        func(m *Meta) { m.Address = netip.MustParseAddr("::ffff:10.0.0.1") },
		"zone":          func(m *Meta) { m.Address = netip.MustParseAddr("fe80::1%eth0") },
		"long version":  func(m *Meta) { m.Version = strings.Repeat("v", maxVersion+1) },
		"bad version":   func(m *Meta) { m.Version = "\xff" },
	} {
		bad := good
		change(&bad)
		if bad.check() == nil {
			t.Errorf("check, %s: got no error", name)
		}
		if got, err := decodeMeta(encode(bad)); err == nil && name != "zone" { // a zone is not sent
			t.Errorf("decodeMeta, %s: got %+v", name, got)
		}
	}
	b := encode(good)
	for i := range b {
		if _, err := decodeMeta(b[:i]); err == nil {
			t.Errorf("cut to %d bytes: got no error", i)
		}
	}
	if _, err := decodeMeta(append(bytes.Clone(b), 0)); err == nil || !strings.Contains(err.Error(), "trail") {
		t.Errorf("a trailing byte: got %v", err)
	}
	if _, err := decodeMeta(make([]byte, 513)); err == nil || !strings.Contains(err.Error(), "513") {
		t.Errorf("513 bytes: got %v", err)
	}
	if got, err := decodeMeta(words{}.encode()); err == nil {
		t.Errorf("words: got %+v", got)
	}
}

func said() map[string]words {
	a := Meta{Node: "a", Boot: 5, Address: netip.MustParseAddr("10.0.0.1"), Version: "v1"}
	b := Meta{Node: "b", Boot: 6, Address: netip.MustParseAddr("::1")}
	return map[string]words{
		"entry":   {entries: []entry{{Meta: a, Seq: 3, State: []byte("state"), Proof: []byte("proof")}}},
		"largest": {entries: []entry{{Meta: a, Seq: 1<<64 - 1, State: make([]byte, maxState), Proof: make([]byte, maxProof)}}},
		"nothing": {},
		"all": {[]entry{{Meta: a, Seq: 3, State: []byte("state"), Lost: time.Hour, Gossip: netip.MustParseAddrPort("[::1]:7946")}, {Meta: b, State: []byte{}}},
			[]forgetting{{lastWord{"c", 7, 8}, time.Minute}}},
	}
}

func TestWordsRoundTrip(t *testing.T) {
	for name, want := range said() {
		b := want.encode()
		got, err := decodeWords(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %.100v, %v", name, got, err)
		}
		if _, err := decodeWords(append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s with a trailing byte: got no error", name)
		}
		if len(b) > 1000 {
			continue
		}
		for i := range b {
			if _, err := decodeWords(b[:i]); err == nil {
				t.Errorf("%s cut to %d bytes: got no error", name, i)
			}
		}
		// memberlist reuses its buffers.
		clear(b)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s shares memory with its encoding", name)
		}
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		frame, want, err string
	}{
		"an answer":      {frame: "\x01yes", want: "yes"},
		"an empty one":   {frame: "\x01"},
		"a beat":         {frame: ""},
		"a refusal":      {frame: "\x00no", err: "no"},
		"a long refusal": {frame: "\x00" + strings.Repeat("n", 9<<10), err: strings.Repeat("n", maxAround-1)},
		"something else": {frame: "\x02yes", err: errHeader.Error()},
		"too much":       {frame: "\x01" + strings.Repeat("n", 10<<10), err: errHeader.Error()},
	} {
		got, err := readAnswer(bytes.NewReader(framed([]byte(c.frame))), 10<<10)
		if string(got) != c.want || err != nil && err.Error() != c.err || err == nil && c.err != "" ||
			(got == nil) != (c.frame == "" || c.err != "") {
			t.Errorf("%s: got %q, %.50v", name, got, err)
		}
	}
}

func TestMessageLimits(t *testing.T) {
	a := Meta{Node: "a", Boot: 5, Address: netip.MustParseAddr("10.0.0.1")}
	for name, w := range map[string]words{
		"state":    {entries: []entry{{Meta: a, Seq: 1, State: make([]byte, maxState+1)}}},
		"proof":    {entries: []entry{{Meta: a, Seq: 1, Proof: make([]byte, maxProof+1)}}},
		"name":     {forgotten: []forgetting{{lastWord{strings.Repeat("n", maxNode+1), 1, 1}, 1}}},
		"entries":  {entries: make([]entry, maxNodes+1)},
		"commands": {forgotten: make([]forgetting, maxForgotten+1)},
	} {
		if _, err := decodeWords(w.encode()); err == nil || !strings.Contains(err.Error(), "at most") && name != "name" {
			t.Errorf("%s too large: got %v", name, err)
		}
	}
}

// An age beyond all bounds is the longest, and never a negative one.
func TestAgesAreBounded(t *testing.T) {
	m := Meta{Node: "a", Boot: 5, Address: netip.MustParseAddr("10.0.0.1")}
	for _, age := range []time.Duration{-1, 1<<63 - 1, -1 << 63} {
		w, err := decodeWords(words{[]entry{{Meta: m, Lost: age}}, []forgetting{{lastWord{"c", 7, 8}, age}}}.encode())
		if err != nil || w.entries[0].Lost != maxAge || w.forgotten[0].Age != maxAge {
			t.Errorf("%d: got %+v, %v", age, w, err)
		}
	}
}

// What is announced and does not come takes no memory, and fields of a later version are passed over.
func TestLengthsAreNotBelieved(t *testing.T) {
	for name, announced := range map[string]any{
		"entries":       map[string]any{"Entries": 1 << 40},
		"negative ones": map[string]any{"Entries": -1, "Forgotten": -1},
	} {
		if w, err := decodeWords(encode(announced)); err == nil && len(w.entries)+len(w.forgotten) > 0 {
			t.Errorf("%s: got %+v", name, w)
		}
	}
	for name, rest := range map[string]string{"an array": "\xdd\xff\xff\xff\xff", "a state": "\x81\xa5State\xc6\xff\xff\xff\xff"} {
		if w, err := decodeWords(append(encode(lengths{Entries: 1}), rest...)); err == nil {
			t.Errorf("%s: got %+v", name, w)
		}
	}
	later := map[string]any{"Entries": 0, "Since": []any{1, map[string]any{"x": "y"}}}
	if w, err := decodeWords(encode(later)); err != nil {
		t.Errorf("a field of a later version: got %+v, %v", w, err)
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add(encode(Meta{Node: "a", Boot: 1, Address: netip.MustParseAddr("10.0.0.1"), Version: "v"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := decodeMeta(encode(m)); err != nil || again != m || m.check() != nil {
			t.Errorf("%x is read as %+v, which is read again as %+v (%v)", b, m, again, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, w := range said() {
		if b := w.encode(); len(b) < 1000 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := decodeWords(b)
		if err != nil {
			return
		}
		if again, err := decodeWords(w.encode()); err != nil || !reflect.DeepEqual(again, w) {
			t.Errorf("%x is read as %+v, which is read again as %+v, %v", b, w, again, err)
		}
	})
}
