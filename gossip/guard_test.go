package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// said is a stream that has been written to its end.
type said struct {
	net.Conn
	*bytes.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// unfiltered is a stream of cluster main in the clear, or under a key.
func unfiltered(words []byte, keyed bool) *stream {
	r := rules{label: "main", keyed: keyed}
	return r.stream(said{Reader: bytes.NewReader(words)}, Speaker{}, r.head(), maxStranger, func() {})
}

func announce(nodes, state byte) []byte {
	return append([]byte{typePushPull, 0x83, 0xa5}, fmt.Sprintf("Nodes%c\xacUserStateLen%c\xa4Join\xc3", nodes, state)...)
}

// What is let through is handed on as it is, and what is refused or cut short not at all.
func TestGuard(t *testing.T) {
	t.Parallel()
	label := append([]byte{typeLabel, 4}, "main"...)
	at := func(b ...byte) []byte { return append(bytes.Clone(label), b...) }
	for name, c := range map[string]struct {
		keyed bool
		words []byte
		want  error
	}{
		"nothing":                {words: nil},
		"half a label":           {words: label[:3]},
		"another label":          {words: append([]byte{typeLabel, 4}, "mein\x09\xff"...)},
		"no label":               {words: []byte{typeCompress, 1, 2}},
		"only a label":           {words: label},
		"push/pull":              {words: at(append([]byte{typePushPull, 0x83}, "\xa4Join\xc3\xa5Nodes\x00\xacUserStateLen\x03abc"...)...)},
		"a user's message":       {words: at(append([]byte{typeUser, 0x81, 0xaa}, "UserMsgLen\x03abc"...)...)},
		"compressed":             {words: at(typeCompress, 1), want: errCompressed},
		"not a map":              {words: at(typePushPull, 0xc1, 0, 3), want: errHeader},
		"encrypted, no key here": {words: at(typeEncrypt, 0, 0, 0, 40, 0)},
		"in the clear, key here": {keyed: true, words: at(typeCompress, 1)},
		"encrypted":              {keyed: true, words: at(typeEncrypt, 0, 0, 0, 40, 1)},
		"padded":                 {keyed: true, words: at(typeEncrypt, 0, 0, 0, 40, 0), want: errPadding},
		"another version":        {keyed: true, words: at(typeEncrypt, 0, 0, 0, 40, 2), want: errPadding},
		"too large":              {keyed: true, words: at(typeEncrypt, 0, 0x20, 4, 1, 1), want: errHeader},
	} {
		got, err := io.ReadAll(unfiltered(c.words, c.keyed))
		if c.want == nil && !bytes.Equal(got, c.words) || c.want != nil && len(got) > 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: got %q, %v, want %v", name, got, err, c.want)
		}
	}
	for _, words := range [][]byte{at(announce(3, 9)[:12]...), at(announce(3, 9)...), at(append(announce(0, 3), "ab"...)...)} {
		if got, err := io.ReadAll(unfiltered(words, false)); len(got) > 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut: got %q, %v", got, err)
		}
	}
	long := at(append(announce(3, 9), make([]byte, maxStranger)...)...)
	if got, err := io.ReadAll(unfiltered(append(long, make([]byte, 4<<10)...), false)); len(got) > 0 || !errors.Is(err, errHeader) {
		t.Errorf("more than its limit: got %d bytes, %v", len(got), err)
	}
}

// memberlist remembers dead processes for a while, so that forged ones that come and go would fill its memory.
func TestProcessesThatComeAndGoAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	v := newView(node("a"), now)
	crowded := func(now time.Time) bool { return !v.fits(now) }
	for range maxGone {
		if crowded(now) {
			t.Fatalf("crowded with %d gone", len(v.gone))
		}
		m := node("forged")
		v.up(m, at, now)
		v.down(m, now)
	}
	if !crowded(now.Add(goneFor)) {
		t.Error("not crowded")
	}
	if crowded(now.Add(goneFor+time.Second)) || len(v.gone) != 0 {
		t.Errorf("still crowded: %d", len(v.gone))
	}
}

func FuzzGuard(f *testing.F) {
	label := append([]byte{typeLabel, 4}, "main"...)
	f.Add(append(bytes.Clone(label), announce(1, 2)...), false)
	f.Add(append(bytes.Clone(label), typeEncrypt, 0, 0, 0, 40, 0), true)
	f.Add(append(bytes.Clone(label), typeUser, 0x81, 0xaa, 'U', 's', 'e', 'r', 'M', 's', 'g', 'L', 'e', 'n', 0xd3, 0xff), false)
	f.Fuzz(func(t *testing.T, b []byte, keyed bool) {
		got, err := io.ReadAll(unfiltered(b, keyed))
		switch {
		case err == nil && len(got) > 0:
			if again, err := io.ReadAll(unfiltered(got, keyed)); err != nil || !bytes.Equal(again, got) {
				t.Errorf("%q became %q, and that %q, %v", b, got, again, err)
			}
		case err != nil && len(got) > 0 && len(b) <= maxStranger:
			t.Errorf("%q was refused with %v behind %q", b, err, got)
		case err == nil && keyed && bytes.HasPrefix(b, append(label, typeEncrypt)) && len(b) >= len(label)+6 && b[len(label)+5] != unpadded:
			t.Errorf("%q is padded and was let through", b)
		}
	})
}

func FuzzPacket(f *testing.F) {
	label := append([]byte{typeLabel, 4}, "main"...)
	f.Add(append(bytes.Clone(label), typeCompound, 2, 0, 1, 0, 2, typePing, typeCompress, 1), false)
	f.Add(append(bytes.Clone(label), 0, 1, 2), true)
	f.Add([]byte{typeLabel}, false)
	f.Fuzz(func(t *testing.T, b []byte, keyed bool) {
		before := bytes.Clone(b)
		err := rules{label: "main", keyed: keyed}.packet(b)
		if !bytes.Equal(b, before) {
			t.Error("the packet was changed")
		}
		if rest, ours := bytes.CutPrefix(b, label); ours && len(rest) > 1 && err == nil && (keyed && rest[0] != unpadded || !keyed && rest[0] == typeCompress) {
			t.Errorf("%q was let through", b)
		}
	})
}

func FuzzKeyFile(f *testing.F) {
	f.Add("# ours\n" + NewKey() + "\n")
	f.Add("AAAAAAAAAAAAAAAAAAAAAA== # made yesterday\r\n\nAAAAAAAAAAAAAAAAAAAAAQ==")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := readKeys(path)
		if err == nil && (len(keys) == 0 || len(keys) > maxKeys) {
			t.Errorf("%q: got %d keys", text, len(keys))
		}
		if err == nil {
			return
		}
		for line := range strings.Lines(text) {
			if bare, _, _ := strings.Cut(line, "#"); len(strings.TrimSpace(bare)) > 8 && strings.Contains(err.Error(), strings.TrimSpace(bare)) {
				t.Errorf("the error shows a key: %v", err)
			}
		}
	})
}
