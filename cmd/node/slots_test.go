package node

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/volume/volumetest/ec2test"
)

// A node takes its slots from the tags. An outage does not keep it from a restart; tags that disagree do.
func TestSlotsOfTheTagsAreRemembered(t *testing.T) {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIAOPERATOR", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none")} {
		t.Setenv(key, value)
	}
	cloud := ec2test.New(ec2test.Options{})
	defer cloud.Close() //nolint:errcheck // it has no devices
	server := httptest.NewServer(cloud)
	defer server.Close()
	volumeOf := func(tag string) string {
		id, err := cloud.AddVolume(ec2test.Volume{Tags: map[string]string{
			"kubernetes.io/cluster/k8s.example.com": "owned", "k8s.io/etcd/main": tag}})
		must(t, err)
		return id
	}
	load := func(dir string) config.Config {
		l, err := config.Load("", nil, []string{"HOLDFAST_CLUSTER_NAME=main", "HOLDFAST_VOLUME_PROVIDER=ebs",
			"HOLDFAST_NODE_ADDRESS=192.0.2.1", "HOLDFAST_VOLUME_EBS_KUBERNETES_CLUSTER=k8s.example.com",
			"HOLDFAST_VOLUME_EBS_REGION=eu-test-1", "HOLDFAST_VOLUME_EBS_ENDPOINT=" + server.URL,
			"HOLDFAST_NODE_DATA_DIR=" + dir, "HOLDFAST_SNAPSHOT_STORE=s3://bucket/x"})
		must(t, err)
		return l.Config
	}
	slots := func(dir string) ([]string, error) {
		cfg, err := knownSlots(t.Context(), load(dir), zap.NewNop())
		return cfg.Cluster.Slots, err
	}
	dir, fresh := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if _, err := slots(dir); err == nil || !strings.Contains(err.Error(), "cluster.slots is not set") {
		t.Errorf("without a volume: got %v, want an error that names the key", err)
	}
	volumeOf("a/a,b,c")
	second := volumeOf("b/c,b,a")
	abc := []string{"a", "b", "c"}
	if got, err := slots(dir); !slices.Equal(got, abc) || err != nil {
		t.Fatalf("got %v, %v, want %v", got, err, abc)
	}
	full := t.TempDir()
	must(t, os.Mkdir(filepath.Join(full, "slots.json"), 0o700))
	if got, err := slots(full); !slices.Equal(got, abc) || err != nil {
		t.Errorf("where they cannot be remembered: got %v, %v, want %v", got, err, abc)
	}
	must(t, cloud.Inject(ec2test.Fault{Action: "DescribeVolumes", Kind: ec2test.Deny}))
	if got, err := slots(dir); !slices.Equal(got, abc) || err != nil {
		t.Errorf("while EC2 denies: got %v, %v, want what was remembered", got, err)
	}
	if _, err := slots(fresh); err == nil {
		t.Error("while EC2 denies, on a machine that remembers nothing: got no error")
	}
	cloud.Clear()
	must(t, cloud.SetTag(second, "k8s.io/etcd/main", "b/a,b"))
	if got, err := slots(dir); !slices.Equal(got, abc) || err != nil {
		t.Errorf("with tags that disagree: got %v, %v, want what was remembered", got, err)
	}
	if _, err := slots(fresh); err == nil || !strings.Contains(err.Error(), "has a,b,c") {
		t.Errorf("with tags that disagree, on a machine that remembers nothing: got %v, want what each says", err)
	}
	must(t, cloud.DeleteTag(second, "k8s.io/etcd/main"))
	if got, err := slots(dir); !slices.Equal(got, abc) || err != nil {
		t.Errorf("when they agree again: got %v, %v, want %v", got, err, abc)
	}
}

// A reload reads no tags: the slots stay those of the start.
func TestReloadKeepsTheSlotsOfTheTags(t *testing.T) {
	running := &config.Loaded{}
	running.Config.Cluster.Slots = []string{"a", "b"}
	next := &config.Loaded{}
	load := keepSlots(running, func() (*config.Loaded, error) { return next, nil })
	next.Config.Cluster.TagSlots = true
	if l, err := load(); err != nil || !slices.Equal(l.Config.Cluster.Slots, []string{"a", "b"}) {
		t.Errorf("got %v, %v, want the slots that run", l.Config.Cluster.Slots, err)
	}
	next.Config.Cluster.TagSlots, next.Config.Cluster.Slots = false, []string{"a"}
	if l, err := load(); err != nil || !slices.Equal(l.Config.Cluster.Slots, []string{"a"}) {
		t.Errorf("got %v, %v, want the slots that were set since", l.Config.Cluster.Slots, err)
	}
}
