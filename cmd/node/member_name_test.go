package node

import (
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/invalid"
)

func TestMemberNameConfig(t *testing.T) {
	if got := loaded(t, "cluster: {member-name: 'etcd-{slot}'}").Cluster.MemberName; got != "etcd-{slot}" {
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
