package cmd

import (
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/invalid"
)

// The slot is in the peer URL; the name, whatever its pattern, is asked only when the URL is another's.
func TestSlotOf(t *testing.T) {
	const ours, other = "http://b.main.holdfast.internal:2380", "http://10.0.0.1:2380"
	for _, tt := range []struct{ pattern, name, url, want string }{
		{"{slot}", "b", ours, "b"},
		{"etcd-{slot}", "etcd-b", ours, "b"},
		{"etcd-{slot}", "", ours, "b"},  // was added, and has never started
		{"etcd-{slot}", "b", ours, "b"}, // has not been restarted since the pattern changed
		{"{slot}", "etcd-c", ours, "b"}, // a name is only a name
		{"etcd-{slot}", "etcd-b", other, "b"},
		{"{slot}", "b", other, "b"},
		{"etcd-{slot}", "b", other, "b"},
		{"{slot}.etcd", "b.etcd", other, "b"},
		{"etcd-{slot}", "etcd-", other, "etcd-"},
		{"etcd-{slot}", "", other, ""},
		{"{slot}", "", "http://.main.holdfast.internal:2380", ""},
	} {
		m := member{peerURL: "http://{slot}.main.holdfast.internal:2380", memberName: tt.pattern}
		if got := m.slotOf(embedded.MemberInfo{Name: tt.name, PeerURLs: []string{tt.url}}); got != tt.want {
			t.Errorf("%s called %q at %s: got %q, want %q", tt.pattern, tt.name, tt.url, got, tt.want)
		}
	}
}

func TestMemberNameConfig(t *testing.T) {
	if got := configured(t, "cluster: {member-name: 'etcd-{slot}'}").Cluster.MemberName; got != "etcd-{slot}" {
		t.Errorf("got %q, want etcd-{slot}", got)
	}
	longest := strings.Repeat("x", 40) + "{slot}" + strings.Repeat("y", 7)
	for pattern, ok := range map[string]bool{
		"{slot}": true, "{slot}.etcd": true, "Etcd-{slot}-1": true, "etcd--{slot}": true, longest: true,
		"": false, "etcd": false, "{slot}{slot}": false, "{slot}={slot}": false, "a={slot}": false, "-{slot}": false, "{slot}.": false,
		"a b{slot}": false, "a_{slot}": false, "{Slot}": false, "{slot": false, "é{slot}": false, longest + "y": false,
	} {
		c := config.Default().Cluster
		c.MemberName = pattern
		err := invalid.Join(c.Validate)
		if got := err == nil; got != ok {
			t.Errorf("%q: got %v, want valid %v", pattern, err, ok)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "cluster.member-name: must hold {slot} once, and around it at most 47 of ") {
			t.Errorf("%q: got %v", pattern, err)
		}
	}
}
