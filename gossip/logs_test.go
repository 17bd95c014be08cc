package gossip

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestNoticesAge(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	now := time.Unix(0, 0)
	n := newNotices(zap.New(core), func() time.Time { return now }, nil)
	for range 100 { // every second for 100 s
		n.warn("k", "b: bad")
		n.show("other", "a: shown")
		now = now.Add(time.Second)
	}
	if got := logs.Len(); got != 2 {
		t.Errorf("log lines in 100 s: got %d, want 2", got)
	}
	if got, want := noticed(n), []string{"a: shown", "b: bad"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n.settle("other")
	now = now.Add(58 * time.Second)
	if got := n.Problems(); len(got) != 1 {
		t.Errorf("59 s after the last sight: got %q, want one", got)
	}
	now = now.Add(time.Second)
	if got := n.Problems(); len(got) != 0 {
		t.Errorf("a minute after the last sight: got %q, want none", got)
	}
}

// noticed are the sentences of the current problems.
func noticed(n *notices) (out []string) {
	for _, p := range n.Problems() {
		out = append(out, p.Text)
	}
	return out
}

func TestNoticesAreBounded(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	now := time.Unix(0, 0)
	n := newNotices(zap.New(core), func() time.Time { return now }, nil)
	for i := range 10 * maxNotices {
		n.warn(fmt.Sprint(i), fmt.Sprint(i))
	}
	if got := len(n.Problems()); got != maxNotices {
		t.Errorf("problems: got %d, want %d", got, maxNotices)
	}
	if got := logs.Len(); got != maxNotices {
		t.Errorf("log lines: got %d, want %d", got, maxNotices)
	}
	now = now.Add(noticeAge)
	n.warn("new", "new")
	if got := noticed(n); !slices.Equal(got, []string{"new"}) {
		t.Errorf("after a minute: got %q, want the new one", got)
	}
}

// The lines that cannot be provoked here; the others are in refuse_test.go.
func TestListener(t *testing.T) {
	for line, want := range map[string]string{
		"[WARN] memberlist: Was able to connect to b#xyz over TCP but UDP probes failed, network may be misconfigured": "b: it answers over TCP but not over UDP (is the gossip port open for UDP?)",
		"[ERR] memberlist: discarding packet with unacceptable label \"holdfast/x\": from=[2001:db8::1]:7946":          `2001:db8::1: it belongs to another cluster ("holdfast/x")`,
		"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=<unknown address>":  "some node: its gossip packets are not readable with our keys (other key, or not ours)",
		"[ERR] memberlist: Failed to send UDP ping: something else":                                                    "",
	} {
		m := &member{Mesh: newMesh(t)}
		if n, err := (listener{m.notices, true}).Write([]byte(line + "\n")); err != nil || n != len(line)+1 {
			t.Errorf("Write: got %d, %v", n, err)
		}
		if got := strings.Join(noticed(m.notices), "\n"); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", line, got, want)
		}
	}
}
