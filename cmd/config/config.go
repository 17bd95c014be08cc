package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"holdfast/embedded/pki"
	"holdfast/embedded/settings"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// Config is the whole configuration. Each package owns its section; sections that belong to no single package are here.
// The mapstructure tags are the keys: `gossip: {seeds: …}` in the file, `--gossip.seeds` as a flag, and
// HOLDFAST_GOSSIP_SEEDS in the environment. default.yaml says what each key means.
type Config struct {
	Cluster  Cluster         `mapstructure:"cluster"`
	Node     Node            `mapstructure:"node"`
	Gossip   gossip.Config   `mapstructure:"gossip"`
	Volume   Volume          `mapstructure:"volume"`
	Etcd     settings.Config `mapstructure:"etcd"`
	TLS      pki.Config      `mapstructure:"tls"`
	Snapshot Snapshot        `mapstructure:"snapshot"`
	Restore  Restore         `mapstructure:"restore"`
	Upkeep   Upkeep          `mapstructure:"upkeep"`
	Auth     Auth            `mapstructure:"auth"`
	Metrics  metrics.Config  `mapstructure:"metrics"`
	Control  Control         `mapstructure:"control"`
	Log      Log             `mapstructure:"log"`
	Stop     Stop            `mapstructure:"stop"`
}

// Default returns the configuration of a node without any settings: a cluster of one member on the loopback address.
// Values that depend on other keys are empty; Load fills them in.
func Default() Config {
	return Config{
		Cluster: Cluster{
			Name:       "holdfast",
			Slots:      []string{"a"},
			MemberName: SlotMark,
			Domain:     "holdfast.internal",
			Founding:   foundingAuto,
			Recovery:   recoveryManual,
		},
		Node:     Node{Address: "127.0.0.1", DataDir: "./holdfast-data"},
		Gossip:   gossip.Default(),
		Volume:   Volume{Config: volume.Default(), EBS: ebs.Default()},
		Etcd:     settings.Default(),
		TLS:      pki.Default(),
		Snapshot: Snapshot{Config: snapshot.Default(), S3: s3.Default()},
		Restore:  Restore{RevisionBump: 1_000_000_000, ReclaimAfter: 7 * 24 * time.Hour},
		Upkeep:   defaultUpkeep(),
		Metrics:  metrics.Default(),
		Log:      Log{Level: "info", Format: LogConsole},
		Stop:     Stop{Wait: 10 * time.Second, Hold: time.Minute},
	}
}

// Validate calls wrong for every value out of its range, with the key, the allowed values and the value. It checks each
// section by itself; contradictions checks keys against each other.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	for _, section := range []interface {
		Validate(wrong func(key, format string, args ...any))
	}{
		c.Cluster, c.Node, c.Gossip, c.Volume, c.Etcd, c.TLS, c.Snapshot, c.Restore, c.Upkeep, c.Metrics, c.Control, c.Log,
		c.Stop,
	} {
		section.Validate(wrong)
	}
}

// The values of Cluster.Founding.
const (
	foundingAuto  = "auto"  // found a cluster when every wanted slot is blank
	FoundingNever = "never" // wait for an operator, or for a cluster to join
)

// The values of Cluster.Recovery.
const (
	recoveryManual    = "manual"    // a lost majority waits for `holdfast recover`
	RecoveryAutomatic = "automatic" // it is recovered without an operator if the loss is proven
)

// MaxSlots is the highest number of members. More than nine voters make every write slower, and survive no failure that
// happens in practice.
const MaxSlots = 9

var (
	// memberName is the pattern of cluster.member-name. etcd takes any name without = and , (its initial cluster is
	// name=URL,…). These characters need no quoting anywhere.
	memberName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*)?\{slot\}([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	// Cluster and slot are labels in the members' host names, so they must be DNS labels (RFC 1123, at most 63 bytes).
	// They are shorter, so that a whole name is readable and fits the 64 bytes of a certificate's common name.
	clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	slotName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?$`)
	nodeName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	domainName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$`)
)

// maxDomain leaves room for the slot, the cluster and their dots in the 253 bytes of a DNS name (RFC 1035).
const maxDomain = 253 - 16 - 40 - 2

// SlotMark stands for the slot in the patterns of peer URLs and members' names.
const SlotMark = settings.SlotMark

// maxMemberName limits a member's name, with a slot of 16 bytes, to the 63 bytes of a DNS label.
const maxMemberName = 63 - 16 + len(SlotMark)

// Cluster is the `cluster:` section: what all nodes must agree on.
type Cluster struct {
	Name       string   `mapstructure:"name"`        // 1–40 of a-z, 0-9, -
	Slots      []string `mapstructure:"slots"`       // 1–9, unique, each 1–16 of a-z, 0-9, -; empty with TagSlots
	Size       int      `mapstructure:"size"`        // 0–9; instead of Slots: a, b, c, …
	MemberName string   `mapstructure:"member-name"` // pattern with {slot}; only a name, see embedded.Names
	Domain     string   `mapstructure:"domain"`      // of member host names; at least two labels
	Founding   string   `mapstructure:"founding"`    // foundingAuto or FoundingNever
	Recovery   string   `mapstructure:"recovery"`    // recoveryManual or RecoveryAutomatic
	Adopt      bool     `mapstructure:"adopt"`       // take over the data of etcd-manager or plain etcd on a volume
	// AdoptAddresses are the addresses of members that are not taken over yet: SLOT=IP. A slot may have several.
	AdoptAddresses []string `mapstructure:"adopt-addresses"`

	// TagSlots says that Slots is not set, and that the slots come from the tags of the EBS volumes.
	TagSlots bool `mapstructure:"-"`
	// Unset says that Slots is the default, because nobody set the slots or their number.
	Unset bool `mapstructure:"-"`
}

// several reports whether the cluster has, or may have, more than one member.
func (c Cluster) several() bool { return len(c.Slots) > 1 || c.TagSlots }

// WithSlots returns the configuration with the slots in the tags of the volumes, or an error if they are not valid.
func (c Config) WithSlots(slots []string) (Config, error) {
	c.Cluster.Slots, c.Cluster.TagSlots = slots, false
	var errs []error
	c.Cluster.Validate(func(key, format string, args ...any) {
		errs = append(errs, Wrong{Key: key, Problem: fmt.Sprintf(format, args...), Origin: "the tags of the volumes"})
	})
	return c, errors.Join(errs...)
}

// Sized returns the slots of a cluster of n members: a, b, c, …
func Sized(n int) []string { return strings.Split("abcdefghi"[:min(max(n, 0), MaxSlots)], "") }

// Validate reports every value out of range.
func (c Cluster) Validate(wrong func(key, format string, args ...any)) {
	if !clusterName.MatchString(c.Name) {
		wrong("cluster.name", "must be 1–40 of a-z, 0-9 and inner -, got %q", c.Name)
	}
	if n := len(c.Slots); n < 1 && !c.TagSlots || n > MaxSlots {
		wrong("cluster.slots", "must be 1–%d slots, got %d", MaxSlots, n)
	}
	if c.Size < 0 || c.Size > MaxSlots {
		wrong("cluster.size", "must be 0–%d, got %d", MaxSlots, c.Size)
	}
	for i, slot := range c.Slots {
		if !slotName.MatchString(slot) {
			wrong("cluster.slots", "each must be 1–16 of a-z, 0-9 and inner -, got %q", slot)
		}
		if slices.Index(c.Slots, slot) < i {
			wrong("cluster.slots", "must be unique, got %q twice", slot)
		}
	}
	if len(c.MemberName) > maxMemberName || !memberName.MatchString(c.MemberName) {
		wrong("cluster.member-name",
			"must hold %s once, and around it at most %d of letters, digits and inner - or ., got %q",
			SlotMark, maxMemberName-len(SlotMark), c.MemberName)
	}
	if len(c.Domain) > maxDomain || !domainName.MatchString(c.Domain) {
		wrong("cluster.domain", "must be a lower-case domain of two or more labels and at most %d bytes, got %q", maxDomain,
			c.Domain)
	}
	if c.Founding != foundingAuto && c.Founding != FoundingNever {
		wrong("cluster.founding", "must be %s or %s, got %q", foundingAuto, FoundingNever, c.Founding)
	}
	if c.Recovery != recoveryManual && c.Recovery != RecoveryAutomatic {
		wrong("cluster.recovery", "must be %s or %s, got %q", recoveryManual, RecoveryAutomatic, c.Recovery)
	}
	for _, text := range c.AdoptAddresses {
		if _, _, ok := elder(text); !ok {
			wrong("cluster.adopt-addresses", "each must be SLOT=IP, as a=10.0.0.1, got %q", text)
		}
	}
}

// elder parses an entry of AdoptAddresses: SLOT=IP.
func elder(text string) (slot string, at netip.Addr, ok bool) {
	slot, ip, found := strings.Cut(text, "=")
	at, err := netip.ParseAddr(ip)
	return slot, at.Unmap(), found && slotName.MatchString(slot) && err == nil && at.Zone() == "" &&
		!at.IsUnspecified() && !at.IsMulticast()
}

// Elders returns the addresses of AdoptAddresses by slot.
func (c Cluster) Elders() map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for _, text := range c.AdoptAddresses {
		if slot, at, ok := elder(text); ok {
			all[slot] = append(all[slot], at)
		}
	}
	return all
}

// Node is the `node:` section: what differs from node to node.
type Node struct {
	Name    string `mapstructure:"name"`     // unique in the cluster; empty: the host name
	Address string `mapstructure:"address"`  // the IP address where other nodes reach this one; Load resolves auto
	DataDir string `mapstructure:"data-dir"` // contains the paths that are not set
}

// Validate reports every value out of range.
func (c Node) Validate(wrong func(key, format string, args ...any)) {
	if !nodeName.MatchString(c.Name) {
		wrong("node.name", "must be 1–63 of a-z, 0-9 and inner - or ., got %q", c.Name)
	}
	ip, err := netip.ParseAddr(c.Address)
	if err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() {
		wrong("node.address", "must be an IP address other nodes can reach, or auto, got %q", c.Address)
	}
	if c.DataDir == "" {
		wrong("node.data-dir", `must be a directory, got ""`)
	}
}

// The values of Log.Format.
const (
	LogConsole = "console" // for people
	logJSON    = "json"    // for programs
)

// Log is the `log:` section.
type Log struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Format string `mapstructure:"format"` // LogConsole or logJSON
}

// Validate reports every value out of range.
func (c Log) Validate(wrong func(key, format string, args ...any)) {
	if !slices.Contains(logLevels(), c.Level) {
		wrong("log.level", "must be one of %s, got %q", strings.Join(logLevels(), ", "), c.Level)
	}
	if c.Format != LogConsole && c.Format != logJSON {
		wrong("log.format", "must be %s or %s, got %q", LogConsole, logJSON, c.Format)
	}
}

// logLevels returns zap's levels without those that end the process.
func logLevels() []string {
	var names []string
	for l := zapcore.DebugLevel; l <= zapcore.ErrorLevel; l++ {
		names = append(names, l.String())
	}
	return names
}

// Auth is the `auth:` section: etcd's users and roles.
type Auth struct {
	// File lists the users and roles that etcd must have. If it is empty, they are left alone.
	File string `mapstructure:"file"`
}

// Upkeep is the `upkeep:` section: compaction and defragmentation of the members' databases.
type Upkeep struct {
	// A database is defragmented when at least DefragFreePercent of its file and DefragFreeBytes are free. With 0
	// percent, it is defragmented only to cure NOSPACE.
	DefragFreePercent int   `mapstructure:"defrag-free-percent"`
	DefragFreeBytes   int64 `mapstructure:"defrag-free-bytes"`
	// FullPercent: every database must be below this percentage of the quota before NOSPACE is disarmed.
	FullPercent int `mapstructure:"full-percent"`
	// CureNoSpace compacts and defragments automatically when the quota is reached.
	CureNoSpace bool `mapstructure:"cure-nospace"`
}

// defaultUpkeep defragments a database if at least half of its file can be freed, and at least 32 MiB.
func defaultUpkeep() Upkeep {
	return Upkeep{DefragFreePercent: 50, DefragFreeBytes: 32 << 20, FullPercent: 90, CureNoSpace: true}
}

// Validate reports every value out of range.
func (c Upkeep) Validate(wrong func(key, format string, args ...any)) {
	if c.DefragFreePercent != 0 && (c.DefragFreePercent < 10 || c.DefragFreePercent > 95) {
		wrong("upkeep.defrag-free-percent", "must be 0 (never) or 10–95, got %d", c.DefragFreePercent)
	}
	if c.FullPercent < 50 || c.FullPercent > 99 {
		wrong("upkeep.full-percent", "must be 50–99, got %d", c.FullPercent)
	}
}

// maxStopWait is more than any hand-over needs. systemd takes a service that stops for longer than 90 s for hung,
// unless its own limit is raised.
const maxStopWait = 10 * time.Minute

// The limits of stop.hold. The disruption lock must outlive a restart, and must expire while an operator waits for it.
const (
	minStopHold = 5 * time.Second
	maxStopHold = time.Hour
)

// Stop is the `stop:` section.
type Stop struct {
	Wait time.Duration `mapstructure:"wait"` // for the disruption lock and the hand-over before a stop
	Hold time.Duration `mapstructure:"hold"` // how long the lock outlives the process
}

// Validate reports every value out of range.
func (c Stop) Validate(wrong func(key, format string, args ...any)) {
	if c.Wait < 0 || c.Wait > maxStopWait {
		wrong("stop.wait", "must be 0s–10m, got %s", c.Wait)
	}
	if c.Hold < minStopHold || c.Hold > maxStopHold {
		wrong("stop.hold", "must be 5s–1h, got %s", c.Hold)
	}
}
