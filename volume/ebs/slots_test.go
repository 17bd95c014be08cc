package ebs

import (
	"slices"
	"strings"
	"testing"
)

func TestSlotsOfTheTags(t *testing.T) {
	c := Default()
	c.KubernetesCluster = "k8s.example.com"
	c = c.For("main")
	tagged := func(values ...string) (all []Volume) {
		for i, value := range values {
			all = append(all, Volume{ID: "vol-" + string(rune('1'+i)), Tags: map[string]string{"k8s.io/etcd/main": value}})
		}
		return all
	}
	for name, test := range map[string]struct {
		volumes []Volume
		want    []string
		says    []string // of the error
	}{
		"one volume tells all":     {tagged("b/c,a,b"), []string{"a", "b", "c"}, nil},
		"the order does not count": {tagged("a/a,b,c", "b/c,b,a", "c/b,a,c"), []string{"a", "b", "c"}, nil},
		"two of one slot":          {tagged("a/a", "a/a"), []string{"a"}, nil},
		"another list": {tagged("a/a,b,c", "b/a,b,c", "c/a,c"), nil,
			[]string{"vol-1, vol-2 has a,b,c; vol-3 has a,c", "k8s.io/etcd/main", "set cluster.slots"}},
		"no list":          {tagged("a"), nil, []string{`vol-1 has "a"`}},
		"not in its list":  {tagged("a/b,c"), nil, []string{`vol-1 has "a/b,c"`}},
		"one without list": {tagged("a/a,b", "b"), nil, []string{`vol-2 has "b"`, "vol-1 has a,b"}},
	} {
		got, err := c.slots(test.volumes)
		if !slices.Equal(got, test.want) || (err == nil) != (test.says == nil) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
			continue
		}
		for _, want := range test.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, want it to say %q", name, err, want)
			}
		}
	}
	if _, err := c.slots(nil); err == nil || !strings.Contains(err.Error(), "set cluster.slots") {
		t.Errorf("without volumes: got %v, want what to do", err)
	}
}
