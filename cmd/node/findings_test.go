package node

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/gossip"
)

// A configuration that is wrong after a change is one line until it is right again.
func TestMisreadConfiguration(t *testing.T) {
	var m misread
	for _, err := range []error{nil, errors.New("a: wrong\nb: wrong, too"), nil} {
		m.is(err)
		got := m.findings("n1")
		if (len(got) > 0) != (err != nil) || len(got) > 0 && !strings.HasSuffix(got[0].Text, "start with it: a: wrong; b: wrong, too") {
			t.Errorf("of %v: got %+v", err, got)
		}
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
