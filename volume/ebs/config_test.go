package ebs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/invalid"
)

func TestDefaultIsValid(t *testing.T) {
	if err := invalid.Join(Default().Validate); err != nil {
		t.Error(err)
	}
}

func TestEveryWrongKeyIsNamed(t *testing.T) {
	c := Default()
	c.Tags = []string{"ok=yes", "=x", "aws:x=1"}
	c.SlotTag = "aws:slot"
	c.Instance, c.Endpoint, c.MetadataEndpoint = "web-1", "ec2.example.com", "ftp://x"
	c.DeviceRoot, c.Filesystem, c.Takeover = "dev", "btrfs", "always"
	c.TakeoverAfter, c.Settle, c.ScanEvery = 2*time.Hour, -time.Second, 0
	err := invalid.Join(c.Validate)
	if err == nil {
		t.Fatal("got no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 12 {
		t.Errorf("got %d lines, want one for each wrong value, 12:\n%v", len(lines), err)
	}
	for _, want := range []string{`tags: must be KEY=VALUE or KEY`, `"aws:x=1"`, "slot-tag",
		`instance: must be the ID of an instance`, `got "web-1"`,
		`endpoint: must be a URL`, `metadata-endpoint: must be a URL`, "device-root", `filesystem: must be ext4 or xfs, got "btrfs"`,
		`takeover: must be terminated or stopped, got "always"`, "takeover-after: must be 0s–1h", "settle", "scan-every: must be 1s–10m"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to contain %q", err, want)
		}
	}
}

func TestDefaultsFitOurTagsAndThoseOfKops(t *testing.T) {
	own := Default().For("main")
	if want := []string{"holdfast:cluster=main"}; !slices.Equal(own.Tags, want) || own.SlotTag != "holdfast:member" {
		t.Errorf("got %v, %s, want %v", own.Tags, own.SlotTag, want)
	}
	kops := Default()
	kops.KubernetesCluster = "k8s.example.com"
	kops = kops.For("events")
	want := map[string]string{"kubernetes.io/cluster/k8s.example.com": "owned", "k8s.io/etcd/events": ""}
	got := kops.filters()
	if len(got) != len(want) || kops.SlotTag != "k8s.io/etcd/events" {
		t.Errorf("got %v, %s, want %v", got, kops.SlotTag, want)
	}
	for key, value := range want {
		if v, ok := got[key]; !ok || v != value {
			t.Errorf("%s: got %q, want %q", key, v, value)
		}
	}
	set := Config{Tags: []string{"team=etcd"}, SlotTag: "slot", KubernetesCluster: "k"}.For("main")
	if !slices.Equal(set.Tags, []string{"team=etcd"}) || set.SlotTag != "slot" {
		t.Errorf("what is set: got %v, %s, want it kept", set.Tags, set.SlotTag)
	}
}

// An older kops gave its volumes only the role master. A volume with real data must not be taken for missing.
func TestVolumesOfKopsAreFoundByEitherRole(t *testing.T) {
	c := Default()
	c.KubernetesCluster = "k8s.example.com"
	c = c.For("main")
	for name, test := range map[string]struct {
		tags map[string]string
		want bool
	}{
		"both roles":         {map[string]string{"k8s.io/role/control-plane": "1", "k8s.io/role/master": "1"}, true},
		"master only":        {map[string]string{"k8s.io/role/master": "1"}, true},
		"another cluster's":  {map[string]string{"kubernetes.io/cluster/k8s.example.com": "shared"}, false},
		"another etcd's":     {map[string]string{"k8s.io/etcd/main": "-", "k8s.io/etcd/events": "a/a,b,c"}, false},
		"no etcd's, a CSI's": {map[string]string{"k8s.io/etcd/main": "-", "k8s.io/role/control-plane": "1"}, false},
	} {
		tags := map[string]string{"kubernetes.io/cluster/k8s.example.com": "owned", "k8s.io/etcd/main": "a/a,b,c"}
		for key, value := range test.tags {
			if tags[key] = value; value == "-" {
				delete(tags, key)
			}
		}
		if got := c.selects(Volume{Tags: tags}); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// The tags are those of pkg/model/master_volumes.go and awsup.AddTags in kops. If one were missing, kops would make a
// second volume, or etcd-manager would not find this one.
func TestCreatedVolumesAreWhatKopsWouldMake(t *testing.T) {
	c := Default()
	c.KubernetesCluster = "k8s.example.com"
	want := map[string]string{
		"Name": "b.etcd-main.k8s.example.com", "KubernetesCluster": "k8s.example.com",
		"kubernetes.io/cluster/k8s.example.com": "owned", "k8s.io/etcd/main": "b/a,b,c",
		"k8s.io/role/control-plane": "1", "k8s.io/role/master": "1",
	}
	if got := c.TagsOf("main", "b", []string{"c", "a", "b"}, nil); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := c.TagsOf("main", "b", []string{"b"}, []string{"team=etcd"}); got["team"] != "etcd" {
		t.Errorf("got %v, want the further tag as well", got)
	}
	own := map[string]string{"Name": "b.main", TagCluster: "main", TagMember: "b"}
	if got := Default().TagsOf("main", "b", []string{"a", "b"}, nil); !maps.Equal(got, own) {
		t.Errorf("without kops: got %v, want %v", got, own)
	}
}
