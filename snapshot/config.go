package snapshot

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Config is the section "snapshot" of the configuration.
type Config struct {
	// Store is the directory that keeps the backups, an absolute path.
	Store string `mapstructure:"store"`
	// Every is the time from one backup to the next, 0 for none but those asked for.
	Every time.Duration `mapstructure:"every"`
	// Retry is the time from a failed backup to the next attempt. It doubles with each failure in a row, up to Every.
	Retry time.Duration `mapstructure:"retry"`
	// Scratch is the directory in which a backup is decompressed to be verified, an absolute path; "" is the
	// system's temporary directory. It needs as much free space as the database has bytes.
	Scratch string `mapstructure:"scratch"`
}

// Default returns the configuration to begin with: a backup every 15 minutes, the next attempt 30 seconds after a
// failure. The directories are for the caller to choose.
func Default() Config {
	return Config{Every: 15 * time.Minute, Retry: 30 * time.Second}
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	for key, dir := range map[string]string{"store": c.Store, "scratch": c.Scratch} {
		if dir != "" && !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("snapshot.%s: must be an absolute path, got %q", key, dir))
		}
	}
	if c.Every != 0 && c.Every < time.Second {
		errs = append(errs, fmt.Errorf("snapshot.every: must be 0 (off) or at least 1s, got %s", c.Every))
	}
	if c.Retry < time.Second {
		errs = append(errs, fmt.Errorf("snapshot.retry: must be at least 1s, got %s", c.Retry))
	}
	return errors.Join(errs...)
}
