package volume

import (
	"time"
)

// The values of Config.Provider.
const (
	ProviderLocal = "local" // directories on this machine
	ProviderEBS   = "ebs"   // AWS EBS volumes
)

// The values of LocalConfig.Scope.
const (
	// ScopeMachine is a root that all nodes of one machine share.
	ScopeMachine = "machine"
	// ScopeHost is a root that belongs to one node, which holds at most one volume with data.
	ScopeHost = "host"
)

// The values of LocalConfig.Mount.
const (
	// mountAuto refuses a directory below a mount point of /etc/fstab, or of a mount unit of systemd, that is not
	// mounted.
	mountAuto = "auto"
	// mountRequire also refuses a directory on the file system mounted at /.
	mountRequire = "require"
	// mountIgnore checks no mounts.
	mountIgnore = "ignore"
)

// Config is the section `volume` of the configuration.
type Config struct {
	// Provider is the kind of volumes: ProviderLocal or ProviderEBS.
	Provider string `mapstructure:"provider"`
	// Local only matters if Provider is local.
	Local LocalConfig `mapstructure:"local"`
}

// LocalConfig is the section `volume.local`.
type LocalConfig struct {
	// Root is the directory that contains the volumes. If it is empty, the command line derives it from node.data-dir.
	Root string `mapstructure:"root"`
	// Directory, if set, is the only volume: this directory itself, with the slot Slot. Root is then ignored.
	Directory string `mapstructure:"directory"`
	// Scope says who shares Root: ScopeMachine or ScopeHost.
	Scope string `mapstructure:"scope"`
	// Slot, if set, is the only slot this node claims.
	Slot string `mapstructure:"slot"`
	// TakeoverAfter is how long, 0 to 1 h, a volume is kept for a node that left without releasing it. It only matters
	// with ScopeMachine: a root that is not shared has no other node to wait for.
	TakeoverAfter time.Duration `mapstructure:"takeover-after"`
	// Mount says how to make sure that Root is mounted: mountAuto, mountRequire or mountIgnore.
	Mount string `mapstructure:"mount"`
}

// Default is the configuration of a node that has its host to itself.
func Default() Config {
	return Config{
		Provider: ProviderLocal,
		Local: LocalConfig{
			Scope:         ScopeHost,
			TakeoverAfter: 10 * time.Second,
			Mount:         mountAuto,
		},
	}
}

// Validate calls wrong for every invalid value.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	if c.Provider != ProviderLocal && c.Provider != ProviderEBS {
		wrong("volume.provider", "must be %s or %s, got %q", ProviderLocal, ProviderEBS, c.Provider)
	}
	l := c.Local
	if l.Scope != ScopeMachine && l.Scope != ScopeHost {
		wrong("volume.local.scope", "must be %s or %s, got %q", ScopeMachine, ScopeHost, l.Scope)
	}
	if l.Slot != "" && !label.MatchString(l.Slot) {
		wrong("volume.local.slot", "must be a DNS label of lower-case letters and digits, got %q", l.Slot)
	}
	if l.Directory != "" && l.Slot == "" {
		wrong("volume.local.slot", "must be set with volume.local.directory (%s): nothing else says which slot that is",
			l.Directory)
	}
	if l.TakeoverAfter < 0 || l.TakeoverAfter > time.Hour {
		wrong("volume.local.takeover-after", "must be 0s to 1h, got %s", l.TakeoverAfter)
	}
	if l.Mount != mountAuto && l.Mount != mountRequire && l.Mount != mountIgnore {
		wrong("volume.local.mount", "must be %s, %s or %s, got %q", mountAuto, mountRequire, mountIgnore, l.Mount)
	}
}
