package config

import (
	"slices"
	"strings"
	"testing"
)

// Without cluster.slots, kops' volumes name the slots: nothing is wrong then, and what is not looked at is said.
func TestSlotsOfTags(t *testing.T) {
	base, address := []string{"HOLDFAST_VOLUME_PROVIDER=ebs"}, "HOLDFAST_NODE_ADDRESS=192.0.2.1"
	store := "HOLDFAST_SNAPSHOT_STORE=s3://bucket/x"
	kops := []string{"HOLDFAST_VOLUME_EBS_KUBERNETES_CLUSTER=k8s.example.com"}
	for name, test := range map[string]struct {
		environ []string
		want    bool
	}{
		"not set":                {kops, true},
		"slots are set":          {append([]string{"HOLDFAST_CLUSTER_SLOTS=a,b,c"}, kops...), false},
		"set to what is default": {append([]string{"HOLDFAST_CLUSTER_SLOTS=a"}, kops...), false},
		"a size is set":          {append([]string{"HOLDFAST_CLUSTER_SIZE=3"}, kops...), false},
		"not of kops":            {nil, false},
		"not EBS":                {append([]string{"HOLDFAST_VOLUME_PROVIDER=local"}, kops...), false},
	} {
		l, err := Load("", nil, slices.Concat(base, []string{address, store}, test.environ))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c := l.Config.Cluster; c.TagSlots != test.want || (len(c.Slots) == 0) != test.want {
			t.Errorf("%s: got %v, %t, want from the tags: %t", name, c.Slots, c.TagSlots, test.want)
		}
		if said := strings.Contains(strings.Join(l.Warnings, "\n"), "k8s.io/etcd/holdfast"); said != test.want {
			t.Errorf("%s: got the warnings %q, want the tag named: %t", name, l.Warnings, test.want)
		}
	}
	for name, set := range map[string][]string{
		"node.address":   {"HOLDFAST_NODE_ADDRESS=127.0.0.1", store},
		"snapshot.store": {"HOLDFAST_TLS_MODE=auto", address},
	} {
		if _, err := Load("", nil, slices.Concat(base, kops, set)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s refused as with several slots", err, name)
		}
	}
	l, err := Load("", nil, slices.Concat(base, kops, []string{address, store}))
	must(t, err)
	if c, err := l.Config.WithSlots([]string{"a", "b"}); err != nil || c.Cluster.TagSlots || len(c.Cluster.Slots) != 2 {
		t.Errorf("got %+v, %v", c.Cluster, err)
	}
	for _, bad := range [][]string{{"A"}, {"a", "a"}, {strings.Repeat("x", 17)}, nil} {
		if _, err := l.Config.WithSlots(bad); err == nil || !strings.Contains(err.Error(), "cluster.slots") {
			t.Errorf("%q: got %v, want cluster.slots named", bad, err)
		}
	}
}
