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
	// ScopeMachine is a root that all nodes of this machine see.
	ScopeMachine = "machine"
	// ScopeHost is a root of this host's own: one node, hence at most one volume with data.
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
	// Local counts when Provider is local.
	Local LocalConfig `mapstructure:"local"`
}

// LocalConfig is the section `volume.local`.
type LocalConfig struct {
	// Root is the directory the volumes lie in. The empty string is filled in by the command line,
	// which knows node.data-dir.
	Root string `mapstructure:"root"`
	// Directory, when set, is the only volume: this directory itself, with the slot Slot. Root is ignored then.
	Directory string `mapstructure:"directory"`
	// Scope says who else sees Root: ScopeMachine or ScopeHost.
	Scope string `mapstructure:"scope"`
	// Slot, when set, is the only slot this node claims.
	Slot string `mapstructure:"slot"`
	// TakeoverAfter is how long, 0 to 1 h, a volume that another node left without releasing it is kept for that node.
	// Only ScopeMachine waits: on a root of its own no other node can come back.
	TakeoverAfter time.Duration `mapstructure:"takeover-after"`
	// Mount says how to make sure that Root is mounted: mountAuto, mountRequire or mountIgnore.
	Mount string `mapstructure:"mount"`
}

// Default is the configuration of a node that has its host for itself.
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

// Validate calls wrong for every value out of range.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	if c.Provider != ProviderLocal && c.Provider != ProviderEBS {
		wrong("volume.provider", "must be %s or %s, got %q", ProviderLocal, ProviderEBS, c.Provider)
	}
	c.Local.validate(wrong)
}

func (c LocalConfig) validate(wrong func(key, format string, args ...any)) {
	switch c.Scope {
	case ScopeMachine, ScopeHost:
	default:
		wrong("volume.local.scope", "must be %s or %s, got %q", ScopeMachine, ScopeHost, c.Scope)
	}
	if c.Slot != "" && !label.MatchString(c.Slot) {
		wrong("volume.local.slot", "must be a DNS label of lower-case letters and digits, got %q", c.Slot)
	}
	if c.Directory != "" && c.Slot == "" {
		wrong("volume.local.slot", "must be set with volume.local.directory (%s): nothing else says which slot that is",
			c.Directory)
	}
	if c.TakeoverAfter < 0 || c.TakeoverAfter > time.Hour {
		wrong("volume.local.takeover-after", "must be 0s to 1h, got %s", c.TakeoverAfter)
	}
	switch c.Mount {
	case mountAuto, mountRequire, mountIgnore:
	default:
		wrong("volume.local.mount", "must be %s, %s or %s, got %q", mountAuto, mountRequire, mountIgnore, c.Mount)
	}
}
