package snapshot

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is the section "snapshot" of the configuration, without the settings for a bucket.
type Config struct {
	// Store keeps the backups: a directory, as an absolute path or file:///path, or s3://bucket/prefix.
	Store string `mapstructure:"store"`
	// Spool is the directory, an absolute path, in which a backup is made before it is copied to Store. The newest two
	// stay there. With "" backups are made in Store itself.
	Spool string `mapstructure:"spool"`
	// Scratch is the directory in which a backup is decompressed to be verified, an absolute path; "" is the system's
	// temporary directory. It needs as much free space as the database has bytes.
	Scratch string `mapstructure:"scratch"`

	// Every is the time from one backup to the next; with 0 backups are only made on request.
	Every time.Duration `mapstructure:"every"`
	// Cron is the schedule instead of Every: five fields as in cron(5), in UTC; "" for none.
	Cron string `mapstructure:"cron"`
	// Retry is the time from a failed backup to the next attempt. It doubles with each consecutive failure, up to an hour,
	// or until the next backup is due anyway.
	Retry time.Duration `mapstructure:"retry"`
	// Drill is the time from one restore drill to the next, 0 for none. After a failed drill it is at most an hour.
	// Encrypted backups are only drilled with an IdentityFile; see NoDrill.
	Drill time.Duration `mapstructure:"drill"`
	// Rate limits what a backup writes and sends, in MiB per second; 0 means no limit.
	Rate int `mapstructure:"rate"`

	// Format is one of the formats, Compression one of Levels.
	Format      string `mapstructure:"format"`
	Compression string `mapstructure:"compression"`
	// Recipients, if any, are the age recipients (age1…, or ssh public keys) that backups are encrypted to.
	Recipients []string `mapstructure:"recipients"`
	// IdentityFile has the age identities for decryption. It is needed to restore an encrypted backup, and to verify or
	// drill it after it was saved.
	IdentityFile string `mapstructure:"identity-file"`

	// Keep says which backups are kept.
	Keep Keep `mapstructure:"keep"`
}

// Default returns the default configuration: a backup every 15 minutes, a retry 30 seconds after a failure, a drill a
// day. All backups of the last hour are kept, hourly ones for a week, daily ones for a year. The caller sets the
// directories.
func Default() Config {
	return Config{
		Every: 15 * time.Minute, Retry: 30 * time.Second, Drill: 24 * time.Hour, Rate: 100,
		Format: FormatNative, Compression: Levels[0],
		Keep: Keep{All: time.Hour, Hourly: 7 * 24 * time.Hour, Daily: 365 * 24 * time.Hour, Newest: 3},
	}
}

// Validate calls wrong for every invalid value. The caller checks which keys exclude each other.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	c.validateStore(wrong)
	bad := func(key, must string, got any) { wrong("snapshot."+key, "must be %s, got %v", must, got) }
	for _, dir := range []struct{ key, path string }{{"spool", c.Spool}, {"scratch", c.Scratch},
		{"identity-file", c.IdentityFile}} {
		if dir.path != "" && !filepath.IsAbs(dir.path) {
			bad(dir.key, "an absolute path", strconv.Quote(dir.path))
		}
	}
	if c.Every != 0 && c.Every < time.Second {
		bad("every", "0 (off) or at least 1s", c.Every)
	}
	if c.Cron != "" {
		if _, err := parseCron(c.Cron); err != nil {
			bad("cron", "five fields, or one of @hourly, @daily, @weekly, @monthly and @yearly",
				fmt.Sprintf("%q: %v", c.Cron, err))
		}
	}
	if c.Retry < time.Second {
		bad("retry", "at least 1s", c.Retry)
	}
	if c.Drill != 0 && c.Drill < time.Minute {
		bad("drill", "0 (off) or at least 1m", c.Drill)
	}
	if c.Rate < 0 || c.Rate > maxRate {
		bad("rate", fmt.Sprintf("0 (no bound) to %d MiB a second", maxRate), c.Rate)
	}
	if c.Format != FormatNative && c.Format != FormatManager {
		bad("format", FormatNative+" or "+FormatManager, strconv.Quote(c.Format))
	}
	if !slices.Contains(Levels, c.Compression) {
		bad("compression", "one of "+strings.Join(Levels, ", "), strconv.Quote(c.Compression))
	}
	if _, err := ParseRecipients(c.Recipients); err != nil {
		wrong("snapshot.recipients", "%v", err)
	}
	c.Keep.validate(bad)
}

// NoDrill says why no drills are made, or returns "". A node that encrypts usually has no key, so that a stolen disk
// does not reveal backups. That configuration is right.
func (c Config) NoDrill() string {
	switch {
	case c.Drill == 0:
		return "snapshot.drill is 0"
	case len(c.Recipients) > 0 && c.IdentityFile == "":
		return "no identity: the backups are encrypted, and snapshot.identity-file is not set"
	}
	return ""
}

// maxRate is beyond any disk and network, and far below what would overflow.
const maxRate = 1 << 20

// validateStore checks the key store. The caller fills in or refuses an empty one, and package s3 checks a bucket's
// name.
func (c Config) validateStore(wrong func(key, format string, args ...any)) {
	switch at, err := ParseAddress(c.Store); {
	case err != nil:
		wrong("snapshot.store", "%v", err)
	case !strings.HasPrefix(at, bucketScheme) && at != "" && !filepath.IsAbs(at):
		wrong("snapshot.store", "must be an absolute path, file:///path or s3://bucket/prefix, got %q", c.Store)
	}
}

const (
	bucketScheme = "s3://"
	fileScheme   = "file:"
)

// ParseAddress returns the address of a store in its canonical form: the path of a directory, absolute or not, or a URL
// s3://bucket/prefix, whose parts are not checked. It turns file:///path, which kops writes, into the path. Any other
// URL is an error, whose text begins with what the address must be.
func ParseAddress(text string) (string, error) {
	rest, isFile := strings.CutPrefix(text, fileScheme)
	switch path := strings.TrimPrefix(rest, "//"); {
	case strings.HasPrefix(text, bucketScheme):
		return text, nil
	case !isFile && strings.Contains(text, "://"):
		return "", fmt.Errorf("must be a directory, file:///path or s3://bucket/prefix, got %q", text)
	case !isFile:
		return text, nil
	case path == rest || !filepath.IsAbs(path):
		return "", fmt.Errorf("must be file:///path with an absolute path of this machine and without a host, got %q", text)
	case strings.ContainsAny(path, "%?#"): // kops does not decode them, other programs do
		return "", fmt.Errorf("must be the path alone, without file://, where that has %%, ? or #, got %q", text)
	default:
		return path, nil
	}
}

// validate calls bad for every invalid value.
func (k Keep) validate(bad func(key, must string, got any)) {
	if k.All < 0 {
		bad("keep.all", "0 or more", k.All)
	}
	if k.Hourly < 0 || k.Hourly != 0 && k.Hourly < k.All {
		bad("keep.hourly", "0 (none) or at least snapshot.keep.all, "+k.All.String(), k.Hourly)
	}
	if least := max(k.All, k.Hourly); k.Daily < 0 || k.Daily != 0 && k.Daily < least {
		bad("keep.daily", "0 (none) or at least "+least.String()+", the longer of snapshot.keep.all and hourly", k.Daily)
	}
	if k.Newest < 1 {
		bad("keep.newest", "at least 1", k.Newest)
	}
}
