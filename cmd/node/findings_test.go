package node

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/gossip"
)

// A configuration that is wrong, or that needs a restart, is one line until a later change has ended that.
func TestPendingConfiguration(t *testing.T) {
	for _, c := range []struct {
		restart []config.Change
		err     error
		code    health.Code
		ends    string
	}{
		{nil, nil, "", ""},
		{nil, errors.New("a: wrong\nb: wrong, too"), health.ConfigWrong, "start with it: a: wrong; b: wrong, too"},
		{[]config.Change{{Key: "a", Old: "1", New: "2"}, {Key: "b"}}, nil, health.RestartNeeded, "n1 runs with the old values of a, b until it is restarted"},
	} {
		got := pendingOf(c.restart, c.err).findings("n1")
		if c.code == "" && len(got) > 0 || c.code != "" && (len(got) != 1 || got[0].Code != c.code || !strings.HasSuffix(got[0].Text, c.ends)) {
			t.Errorf("of %+v: got %+v", c, got)
		}
	}
	if got := (*pending)(nil).findings("n1"); len(got) > 0 {
		t.Errorf("before the first look: got %+v", got)
	}
}

// A stale line is told with what it says, what is right, and what to remove: etcd-manager's whole block, or the line.
func TestStaleFinding(t *testing.T) {
	l := gossip.StaleLine{File: "/etc/hosts", Number: 4, Name: "etcd-b.internal.example.com",
		Address: netip.MustParseAddr("10.0.0.9"), Known: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}
	for block, do := range map[string]string{"": "Correct or remove line 4 of /etc/hosts.", "etcd-events": "Remove the block of etcd-manager[etcd-events]"} {
		l.Block = block
		f := staleFinding(l)
		want := "/etc/hosts line 4 says that etcd-b.internal.example.com is at 10.0.0.9, but it is at 10.0.0.2 and fd00::2"
		if f.Code != health.NamesStale || f.Severity != health.Degrading || !strings.HasPrefix(f.Text, want) || !strings.HasPrefix(f.Do, do) {
			t.Errorf("block %q: got %+v", block, f)
		}
	}
}
