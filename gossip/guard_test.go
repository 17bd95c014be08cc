package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// handedOn is what is handed on of a message that node a has sent over a stream.
func handedOn(msg []byte) ([]byte, error) {
	in, err := sift(msg, "a")
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

func announce(nodes, state byte, rest string) []byte {
	return append([]byte{typePushPull, 0x83, 0xa5}, fmt.Sprintf("Nodes%c\xacUserStateLen%c\xa4Join\xc3%s", nodes, state, rest)...)
}

// What is let through is handed on as it is, behind who says it, and what is refused or cut short not at all.
func TestGuard(t *testing.T) {
	t.Parallel()
	const speaker = "\x00\x00\x00\x01a"
	for name, c := range map[string]struct {
		said, handedOn string
		want           error
	}{
		"nothing":               {want: errHeader},
		"a label":               {said: "\xf4\x04main\x08", want: errHeader},
		"an empty push/pull":    {said: string(announce(0, 0, "")), handedOn: "\x06\x83\xa4Join\xc3\xa5Nodes\x00\xacUserStateLen\x00"},
		"push/pull":             {said: string(announce(0, 3, "abc")), handedOn: "\x06\x83\xa4Join\xc3\xa5Nodes\x00\xacUserStateLen\x08" + speaker + "abc"},
		"a user's message":      {said: "\x08\x81\xaaUserMsgLen\x03abc", handedOn: "\x08\x81\xaaUserMsgLen\x08" + speaker + "abc"},
		"a ping":                {said: "\x00\x80", handedOn: "\x00\x80"},
		"a long ping":           {said: "\x00" + string(make([]byte, maxAround)), want: errHeader},
		"a suspicion":           {said: "\x03\x80", want: errHeader},
		"compressed":            {said: "\x09\x01", want: errCompressed},
		"encrypted":             {said: "\x0a\x00\x00\x00\x28\x01", want: errHeader},
		"not a map":             {said: "\x06\xc1\x00\x03", want: errHeader},
		"cut in its header":     {said: string(announce(0, 3, "abc")[:12]), want: errHeader},
		"cut in its state":      {said: string(announce(0, 3, "ab")), want: errHeader},
		"more than it said":     {said: string(announce(0, 3, "abcd")), want: errHeader},
		"no process":            {said: string(announce(3, 0, "")), want: errHeader},
		"a negative number":     {said: "\x08\x81\xaaUserMsgLen\xd0\x80", want: errHeader},
		"a user's, of any size": {said: "\x08\x81\xaaUserMsgLen\xce\x00\x02\x00\x00" + string(make([]byte, 2<<16)), want: errHeader},
	} {
		got, err := handedOn([]byte(c.said))
		if string(got) != c.handedOn || !errors.Is(err, c.want) {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, c.handedOn, c.want)
		}
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

// Nothing that is said makes the guard fail, and what it hands on it would let through again.
func FuzzGuard(f *testing.F) {
	f.Add(announce(1, 2, ""))
	f.Add([]byte("\x08\x81\xaaUserMsgLen\xd3\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := handedOn(b)
		if err != nil {
			return
		}
		if _, err := handedOn(got); err != nil && len(got) <= maxUserBytes {
			t.Errorf("%q became %q, and that is refused: %v", b, got, err)
		}
	})
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte{typeCompound, 2, 0, 1, 0, 2, typePing, typeCompress, 1})
	f.Add([]byte{typeCompound, 2, 0, 2, 0, 2, typePing, 0x80, typeUser, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		err := checkPacket(b)
		if !bytes.Equal(b, before) {
			t.Error("the packet was changed")
		}
		if len(b) > 1 && err == nil && (b[0] == typeCompress || b[0] == typeUser) {
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
		must(t, os.WriteFile(path, []byte(text), 0o600))
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
