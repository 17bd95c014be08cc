package ebs

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The values of Config.Takeover.
const (
	// takeoverTerminated only takes volumes that EC2 itself has detached, as it does when an instance terminates.
	takeoverTerminated = "terminated"
	// takeoverStopped also detaches the volume of an instance that is stopped and cannot hibernate.
	takeoverStopped = "stopped"
)

// The filesystems.
const (
	ext4 = "ext4"
	xfs  = "xfs"
)

// holdfast's tags. The operator writes some of them when the volume is created, the node that holds the volume writes
// the others.
const (
	TagCluster  = "holdfast:cluster"  // operator: name of the cluster
	TagMember   = "holdfast:member"   // operator: the slot
	TagInstance = "holdfast:instance" // operator, optional: the only instance that may claim the volume
	TagClaim    = "holdfast:claim"    // holder: see claimTag
	TagFormat   = "holdfast:format"   // holder: filesystem and UUID, once formatted
	TagRecord   = "holdfast:record"   // holder: the record that the disk has accepted, which vetoes a second founding
)

// Config is the section `volume.ebs` of the configuration.
type Config struct {
	// Tags select the cluster's volumes. Each is KEY=VALUE, or KEY for any value. If empty, they follow from
	// KubernetesCluster, or are holdfast:cluster=<cluster.name>.
	Tags []string `mapstructure:"tags"`
	// KubernetesCluster, if set, selects the volumes that kops made for the etcd cluster <cluster.name>
	// of this Kubernetes cluster.
	KubernetesCluster string `mapstructure:"kubernetes-cluster"`
	// SlotTag is the key of the tag that names a volume's slot: "a", or as kops writes it "a/a,b,c".
	// If empty, it is k8s.io/etcd/<cluster.name> with KubernetesCluster, otherwise holdfast:member.
	SlotTag string `mapstructure:"slot-tag"`
	// Region, Zone and Instance of this machine. Empty values come from the instance metadata service.
	Region   string `mapstructure:"region"`
	Zone     string `mapstructure:"zone"`
	Instance string `mapstructure:"instance"`
	// Endpoint and MetadataEndpoint are URLs that replace AWS's own.
	Endpoint         string `mapstructure:"endpoint"`
	MetadataEndpoint string `mapstructure:"metadata-endpoint"`
	// MountRoot is the directory in which volumes are mounted, by slot.
	MountRoot string `mapstructure:"mount-root"`
	// State is the directory of the lock and the journal of this machine's claims.
	State string `mapstructure:"state"`
	// DeviceRoot is the directory that contains sys/block and dev, normally /.
	DeviceRoot string `mapstructure:"device-root"`
	// Filesystem is what a blank volume is formatted with.
	Filesystem string `mapstructure:"filesystem"`
	// Takeover says which volumes may be taken: takeoverTerminated or takeoverStopped.
	Takeover string `mapstructure:"takeover"`
	// TakeoverAfter is how long, 0 to 1 h, another node's claim must be unchanged before its volume, if free, is taken.
	TakeoverAfter time.Duration `mapstructure:"takeover-after"`
	// Settle is how long, 0 to 1 min, other nodes may overwrite a claim before it is read back.
	Settle time.Duration `mapstructure:"settle"`
	// ScanEvery is the mean time, 1 s to 10 min, between a standby's scans for a free volume.
	ScanEvery time.Duration `mapstructure:"scan-every"`
}

// Default is the configuration for volumes with holdfast's own tags.
func Default() Config {
	return Config{
		State:         "/var/lib/holdfast/ebs",
		DeviceRoot:    "/",
		Filesystem:    ext4,
		Takeover:      takeoverTerminated,
		TakeoverAfter: 30 * time.Second,
		Settle:        5 * time.Second,
		ScanEvery:     15 * time.Second,
	}
}

// Validate calls wrong for every invalid value.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	bad := func(key, want string, got any) { wrong("volume.ebs."+key, "must be %s, got %q", want, fmt.Sprint(got)) }
	for _, t := range c.Tags {
		if key, value, _ := strings.Cut(t, "="); !tagKey(key) || !tagValue(value) {
			bad("tags", "KEY=VALUE or KEY, with a key of 1–127 and a value of at most 256 characters", t)
		}
	}
	if c.SlotTag != "" && !tagKey(c.SlotTag) {
		bad("slot-tag", "the key of a tag, 1–127 characters that do not begin with aws:", c.SlotTag)
	}
	if c.Instance != "" && !instanceID.MatchString(c.Instance) {
		bad("instance", "the ID of an instance, such as i-0123456789abcdef0", c.Instance)
	}
	for key, text := range map[string]string{"endpoint": c.Endpoint, "metadata-endpoint": c.MetadataEndpoint} {
		if u, err := url.Parse(text); text != "" &&
			(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			bad(key, "a URL such as https://ec2.example.com", text)
		}
	}
	for key, path := range map[string]string{"device-root": c.DeviceRoot, "state": c.State} {
		if !filepath.IsAbs(path) {
			bad(key, "an absolute path", path)
		}
	}
	if c.Filesystem != ext4 && c.Filesystem != xfs {
		bad("filesystem", ext4+" or "+xfs, c.Filesystem)
	}
	if c.Takeover != takeoverTerminated && c.Takeover != takeoverStopped {
		bad("takeover", takeoverTerminated+" or "+takeoverStopped, c.Takeover)
	}
	if c.Takeover == takeoverStopped && c.Settle < settleStopped {
		bad("settle", fmt.Sprintf("at least %s with takeover: %s", settleStopped, takeoverStopped), c.Settle)
	}
	for _, d := range []struct {
		key      string
		got      time.Duration
		min, max time.Duration
		want     string
	}{
		{"takeover-after", c.TakeoverAfter, 0, time.Hour, "0s–1h"},
		{"settle", c.Settle, 0, time.Minute, "0s–1m"},
		{"scan-every", c.ScanEvery, time.Second, 10 * time.Minute, "1s–10m"},
	} {
		if d.got < d.min || d.got > d.max {
			bad(d.key, d.want, d.got)
		}
	}
}

// For returns the configuration with the defaults that depend on the cluster's name.
func (c Config) For(cluster string) Config {
	if len(c.Tags) == 0 {
		c.Tags = []string{TagCluster + "=" + cluster}
		if c.KubernetesCluster != "" {
			// These are the tags that kops gives to etcd-manager (--volume-tag), except the role: a volume of an older kops
			// only has k8s.io/role/master, and no other volume has the tag of an etcd cluster.
			c.Tags = []string{kopsOwned + c.KubernetesCluster + "=owned", kopsTag(cluster)}
		}
	}
	if c.SlotTag == "" {
		c.SlotTag = TagMember
		if c.KubernetesCluster != "" {
			c.SlotTag = kopsTag(cluster)
		}
	}
	return c
}

// kopsOwned is the prefix of the tag key that says which Kubernetes cluster owns a volume.
const kopsOwned = "kubernetes.io/cluster/"

func kopsTag(cluster string) string { return kopsEtcd + cluster }

// kopsEtcd is the prefix of the tag key that names a volume's slot and all slots of its cluster.
const kopsEtcd = "k8s.io/etcd/"

// NamesSlots reports whether the tags of the cluster's volumes name all of its slots, as kops' tags do.
func (c Config) NamesSlots(cluster string) bool {
	return strings.HasPrefix(c.For(cluster).SlotTag, kopsEtcd)
}

// kopsTags returns the tags that kops gives the volume of a slot, except kopsTag, which names the slot. kops finds its
// volume by Name and KubernetesCluster, and etcd-manager by the roles (pkg/model/master_volumes.go, awsup's
// BuildFilters and AddTags, at kops 268927e2).
func (c Config) kopsTags(cluster, slot string) map[string]string {
	return map[string]string{
		"Name":                          slot + ".etcd-" + cluster + "." + c.KubernetesCluster,
		"KubernetesCluster":             c.KubernetesCluster,
		kopsOwned + c.KubernetesCluster: "owned",
		"k8s.io/role/control-plane":     "1",
		"k8s.io/role/master":            "1",
	}
}

// filters returns Tags in the form of a query.
func (c Config) filters() map[string]string {
	m := map[string]string{}
	for _, t := range c.Tags {
		key, value, _ := strings.Cut(t, "=")
		m[key] = value
	}
	return m
}

// selects reports whether a volume has the cluster's tags.
func (c Config) selects(v Volume) bool { return selects(Query{Tags: c.filters()}, v) }

// slot returns the slot of a volume, and all slots of its cluster, ordered, if the tag names them.
func (c Config) slot(v Volume) (slot string, all []string) {
	slot, list, ok := strings.Cut(v.Tags[c.SlotTag], "/") // "a", or "a/a,b,c"
	if ok {
		all = strings.Split(list, ",")
		slices.Sort(all)
	}
	return slot, all
}

// claim returns the claim on a volume, or an error if there is none that can be parsed.
func (c Config) claim(v Volume) (claimTag, error) { return parseTag(v.Tags[TagClaim]) }

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{1,32}$`)

// tagKey and tagValue check AWS's limits for tags: at most 127 characters (type Tag of the EC2 API) and 256 characters.
// The prefix aws: is reserved.
func tagKey(key string) bool {
	return key != "" && len(key) <= 127 && !strings.HasPrefix(strings.ToLower(key), "aws:")
}

func tagValue(value string) bool { return len(value) <= 256 }
