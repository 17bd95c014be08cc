package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/integration"
)

// asEtcdManager makes a node run under the name etcd-manager, with etcd-manager's flags and environment variables. All
// other commands run as holdfast.
func asEtcdManager(t *testing.T, c *integration.Cluster, n *integration.Node, variables map[string]string,
	flags ...string) {
	t.Helper()
	holdfast, err := binary()
	must(t, err)
	dir := filepath.Join(n.Dir, "bin")
	must(t, os.MkdirAll(dir, 0o700))
	link := filepath.Join(dir, "etcd-manager")
	must(t, os.Symlink(holdfast, link))
	script := "#!/bin/sh\n[ \"$1\" = run ] || exec " + holdfast + " \"$@\"\n"
	for name, value := range variables {
		script += fmt.Sprintf("export %s='%s'\n", name, value)
	}
	script += fmt.Sprintf("export HOLDFAST_NODE_NAME=%s HOLDFAST_NODE_DATA_DIR=%s HOLDFAST_LOG_FORMAT=json\n", n.Name, n.Data)
	script += "export HOLDFAST_SNAPSHOT_DRILL=0s HOLDFAST_SNAPSHOT_EVERY=0s\n"
	all := append([]string{"--cluster-name=" + c.Name, "--backup-store=file://" + c.Store, "--etcd-address=" + n.Address,
		"--client-urls=https://__address__:2379", "--peer-urls=https://__name__:2380",
		"--quarantine-client-urls=https://__name__:3994", "--listen-metrics-urls=http://__address__:2390",
		"--dns-suffix=.internal.k8s.example.com", "--v=6"}, flags...)
	script += "exec " + link + " '" + strings.Join(all, "' '") + "'\n"
	n.Binary = filepath.Join(dir, "node")
	must(t, os.WriteFile(n.Binary, []byte(script), 0o700))
}

// named checks that the members have the names and peer URLs that etcd-manager would give them.
func named(t *testing.T, c *integration.Cluster, scheme string) {
	t.Helper()
	members := c.Members()
	for _, slot := range c.Slots {
		name := c.Name + "-" + slot
		want := fmt.Sprintf("%s://%s.internal.k8s.example.com:2380", scheme, name)
		if got := members[name].PeerURL; got != want || len(members) != len(c.Slots) {
			t.Errorf("member %s has the peer URL %q, want %s: %v", name, got, want, members)
		}
	}
}

// Three nodes with etcd-manager's flags are a cluster whose members have the names and peer URLs that etcd-manager
// would give them. A new disk gets the same ones, and all find each other again after a stop.
func TestEtcdManagerFlags(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	n, pki := c.Nodes[0], overTLS(t, c)
	var seeds []string
	for _, n := range c.Nodes {
		seeds = append(seeds, n.Address+":3996")
	}
	for _, n := range c.Nodes {
		asEtcdManager(t, c, n, map[string]string{"HOLDFAST_CLUSTER_SLOTS": strings.Join(c.Slots, ","),
			"HOLDFAST_GOSSIP_SEEDS": strings.Join(seeds, ","), "ETCD_QUOTA_BACKEND_BYTES": "4294967296"},
			"--data-dir="+n.Root, "--address="+n.Address, "--grpc-port=3996", "--pki-dir="+pki)
	}
	c.Start()
	c.Healthy()
	w := c.Write()
	w.More(50)
	named(t, c, "https")
	n.Logs("has no effect here: a restored cluster serves nobody")

	lost := c.Holder("b")
	lost.Kill()
	lost.Wipe()
	lost.Start()
	c.Healthy()
	w.More(50)
	w.Stop()
	named(t, c, "https")
	c.Stop()
	c.Start()
	c.Healthy()
	w.Verify()
}

// With kops' flags on AWS, the slots and the volumes come from the tags, beside the volumes of events.
func TestEtcdManagerFlagsOnEBS(t *testing.T) {
	r := machines(site(t)).ofKops(t)
	r.cluster.Name = "etcd"
	for _, n := range r.cluster.Nodes {
		n.Configure()
		var file struct {
			Volume struct {
				EBS map[string]string `json:"ebs"`
			} `json:"volume"`
		}
		text, err := os.ReadFile(n.File())
		must(t, err)
		must(t, json.Unmarshal(text, &file))
		variables := map[string]string{}
		for key, value := range file.Volume.EBS { // the settings for the stand-in and the machine
			variables["HOLDFAST_VOLUME_EBS_"+strings.ToUpper(strings.ReplaceAll(key, "-", "_"))] = value
		}
		asEtcdManager(t, r.cluster, n, variables, "--etcd-insecure", "--insecure", "--grpc-port=7946", "--volume-provider=aws",
			"--volume-tag=kubernetes.io/cluster/k8s.example.com=owned", "--volume-tag=k8s.io/etcd/main",
			"--volume-tag=k8s.io/role/control-plane=1", "--volume-name-tag=k8s.io/etcd/main")
	}
	r.cluster.Start()
	w := r.written(20)
	named(t, r.cluster, "http")
	n := r.cluster.Nodes[0]
	slots, err := os.ReadFile(filepath.Join(n.Data, "slots.json"))
	if err != nil || !strings.Contains(string(slots), `["a","b","c"]`) {
		t.Errorf("remembered slots: %q, %v", slots, err)
	}

	// If EC2 does not answer at the start, the slots are those of the last start.
	r.Down()
	n.Stop()
	n.Start()
	n.Logs("using the slots that they named at the last start")
	r.Up()
	r.cluster.Serving()
	w.More(20)
	r.intact(t, w)
}
