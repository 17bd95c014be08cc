package etcdmanager

import (
	"encoding/json"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"holdfast/cmd/config"
)

// staticConfig is the part of --static-config that matters here.
type staticConfig struct {
	Nodes []struct {
		ID string   `json:"id"`
		IP []string `json:"ip"`
	} `json:"nodes"`
}

func (t *translation) volumes() {
	if t.staticConfig != "" && t.VolumeProvider != "external" {
		t.wrong("--static-config", "must be given with --volume-provider=external only")
	}
	switch t.VolumeProvider {
	case "":
		if t.DataDir == "" {
			t.wrong("--data-dir", "must be set where --volume-provider is not")
		}
		t.dataDir()
	case "aws":
		t.ebs()
	case "external":
		t.external()
	case "gce", "openstack", "do", "hetzner", "linode", "azure", "scaleway":
		t.wrong("--volume-provider", "must be aws or external, got %q: holdfast attaches no volumes of that cloud; "+
			"stay with etcd-manager there, or mount the disks yourself and use `holdfast run` with volume.provider local",
			t.VolumeProvider)
	default:
		t.wrong("--volume-provider", "must be aws or external, got %q", t.VolumeProvider)
	}
	if t.VolumeProvider != "" && t.DataDir != "" {
		t.warn("--data-dir: has no effect with --volume-provider=%s: the data is on the volume", t.VolumeProvider)
	}
	if t.networkCIDR != "" {
		t.wrong("--network-cidr", "must not be set: it is for OpenStack, whose volumes holdfast does not attach")
	}
}

// dataDir translates --data-dir: it is the volume itself if it is one already, and otherwise has a directory for each
// slot.
func (t *translation) dataDir() {
	if !t.Volume || t.decided("volume.local.root") {
		t.flag("volume.local.root", t.DataDir, "data-dir")
		return
	}
	t.flag("volume.local.directory", t.DataDir, "data-dir")
	if !t.decided("cluster.slots") && !t.decided("cluster.size") {
		t.flag("volume.local.slot", config.Default().Cluster.Slots[0], "data-dir")
	}
}

func (t *translation) ebs() {
	t.flag("volume.provider", "ebs", "volume-provider")
	if len(t.volumeTags) == 0 {
		t.wrong("--volume-tag", "must be given at least once with --volume-provider=aws, or any volume would do")
	}
	if t.volumeNameTag == "" {
		t.wrong("--volume-name-tag", "must be set with --volume-provider=aws, as to k8s.io/etcd/main: "+
			"it says which slot a volume is")
	}
	for _, tag := range t.volumeTags {
		if strings.Contains(tag, ",") {
			t.wrong("--volume-tag", "must have no comma, got %q: tag the volumes otherwise", tag)
		}
	}
	t.flag("volume.ebs.tags", strings.Join(t.volumeTags, ","), "volume-tag")
	t.flag("volume.ebs.slot-tag", t.volumeNameTag, "volume-name-tag")
	tagged := config.Default().Volume.EBS
	tagged.SlotTag = t.volumeNameTag
	if t.volumeNameTag != "" && !tagged.NamesSlots(t.clusterName) && !t.decided("cluster.slots") &&
		!t.decided("cluster.size") {
		t.wrong("--volume-name-tag", "must begin with k8s.io/etcd/, whose values name all slots, or set "+
			"HOLDFAST_CLUSTER_SLOTS, got %q", t.volumeNameTag)
	}
	t.flag("volume.ebs.state", t.host("/var/lib/holdfast/ebs"), "containerized")
	t.flag("volume.ebs.device-root", t.host("/"), "containerized")
}

// disksDir is where the provider external looks for the volumes' directories.
func (o Options) disksDir() string { return o.host("/mnt/disks") }

// seedsDir is where the provider external finds the other machines without --static-config. Its files have their
// addresses as names.
func (o Options) seedsDir() string { return o.host("/etc/kubernetes/etcd-manager/seeds") }

// gossiping returns the machines with the port of the gossip.
func (t *translation) gossiping(machines []string) (all []string) {
	for _, at := range machines {
		all = append(all, net.JoinHostPort(at, strconv.Itoa(t.grpcPort)))
	}
	return all
}

// prefix returns the prefix of the volumes' directories in disksDir, or "" if not exactly one is given.
func (o Options) prefix() string {
	if o.VolumeProvider != "external" || len(o.volumeTags) != 1 {
		return ""
	}
	return o.volumeTags[0]
}

// external translates the provider external: the directory <prefix><slot>/mnt in disksDir is the volume itself.
func (t *translation) external() {
	t.flag("volume.provider", "local", "volume-provider")
	prefix := t.prefix()
	if prefix == "" {
		t.wrong("--volume-tag", "must be given once with --volume-provider=external, as the prefix of the directories in "+
			"%s, got %q", t.disksDir(), t.volumeTags)
		return
	}
	if len(t.Disks) != 1 {
		t.wrong("--volume-tag", "must be the prefix of one directory in %s that has a directory mnt, got %q, which fits %q: "+
			"a node holds one volume", t.disksDir(), prefix, t.Disks)
		return
	}
	slot := strings.TrimPrefix(t.Disks[0], prefix)
	if !t.decided("volume.local.root") {
		t.flag("volume.local.directory", path.Join(t.disksDir(), t.Disks[0], "mnt"), "volume-tag")
	}
	t.flag("volume.local.slot", slot, "volume-tag")
	if t.staticConfig == "" {
		if !t.decided("cluster.slots") && !t.decided("cluster.size") {
			t.wrong("--static-config", "must be given with --volume-provider=external, for it names the members; "+
				"or set HOLDFAST_CLUSTER_SLOTS to the slots of all members, as to \"a,b,c\"")
		}
		if len(t.Seeds) > 0 {
			t.set("gossip.seeds", strings.Join(t.gossiping(t.Seeds), ","), "the directory "+t.seedsDir())
		}
		return
	}
	var static staticConfig
	if err := json.Unmarshal([]byte(t.staticConfig), &static); err != nil {
		t.wrong("--static-config", "must be JSON: %v", err)
		return
	}
	var slots, seeds, elders []string
	for _, node := range static.Nodes {
		name, ok := strings.CutPrefix(node.ID, prefix)
		if !ok {
			t.wrong("--static-config", "must name nodes whose id begins with --volume-tag (%s), got %q", prefix, node.ID)
		}
		slots, seeds = append(slots, name), append(seeds, t.gossiping(node.IP)...)
		for _, at := range node.IP {
			// A host name needs no entry: etcd-manager's block in /etc/hosts has the members' names.
			if _, err := netip.ParseAddr(at); err == nil {
				elders = append(elders, name+"="+at)
			}
		}
	}
	t.flag("cluster.slots", strings.Join(slots, ","), "static-config")
	t.flag("gossip.seeds", strings.Join(seeds, ","), "static-config")
	if adopt, err := strconv.ParseBool(t.environ[config.Variable("cluster.adopt")]); err != nil || adopt {
		t.flag("cluster.adopt-addresses", strings.Join(elders, ","), "static-config")
	}
}
