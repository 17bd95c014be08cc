package cmd

import (
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/volume/ebs"
	"holdfast/volume/volumetest/ec2test"
)

// A slot whose volume EC2 has given up, as it does if its key cannot be used, gets another one.
func TestVolumeCreateReplacesDeadVolumes(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	cloud := ec2test.New(ec2test.Options{})
	defer cloud.Close()
	server := httptest.NewServer(cloud)
	defer server.Close()
	for slot, state := range map[string]string{"a": "error", "b": "available"} {
		if _, err := cloud.AddVolume(ec2test.Volume{State: state,
			Tags: map[string]string{ebs.TagCluster: "main", ebs.TagMember: slot}}); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.Cluster.Name, cfg.Cluster.Slots, cfg.Node.Address = "main", []string{"a", "b"}, "10.0.0.1"
	cfg.Gossip.Listen = "0.0.0.0:7946"
	cfg.Volume.EBS.Endpoint, cfg.Volume.EBS.Region = server.URL, "eu-test-1"
	cfg.Volume.EBS.Instance, cfg.Volume.EBS.Zone = "i-1", "eu-test-1a"
	var out strings.Builder
	o := createOptions{zones: []string{"eu-test-1a"}, like: ebs.NewVolume{SizeGiB: 1, Type: "gp3"}}
	must(t, createVolumes(t.Context(), cfg, o, &out))
	if got := out.String(); !strings.HasPrefix(got, "slot a: made vol-") || !strings.Contains(got, "slot b: has vol-") {
		t.Errorf("got %s", got)
	}
}
