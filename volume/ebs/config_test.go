package ebs

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func TestEveryWrongKeyIsNamed(t *testing.T) {
	c := Default()
	c.Tags = []string{"ok=yes", "=x", "aws:x=1"}
	c.SlotTag, c.ClaimTag = "aws:slot", ""
	c.Instance, c.Endpoint, c.MetadataEndpoint = "web-1", "ec2.example.com", "ftp://x"
	c.DeviceRoot, c.Filesystem, c.Takeover = "dev", "btrfs", "always"
	c.TakeoverAfter, c.Settle, c.ScanEvery = 2*time.Hour, -time.Second, 0
	err := c.Validate()
	if err == nil {
		t.Fatal("got no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 13 {
		t.Errorf("got %d lines, want one for each wrong value, 13:\n%v", len(lines), err)
	}
	for _, want := range []string{`tags: must be KEY=VALUE or KEY`, `"aws:x=1"`, "slot-tag", "claim-tag", `instance: must be the ID of an instance`, `got "web-1"`,
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
	want := map[string]string{"kubernetes.io/cluster/k8s.example.com": "owned", "k8s.io/etcd/events": "", "k8s.io/role/control-plane": "1"}
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
