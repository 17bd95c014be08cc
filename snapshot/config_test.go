package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/invalid"
	"holdfast/snapshot"
)

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(c *snapshot.Config){
		"default":   func(*snapshot.Config) {},
		"directory": func(c *snapshot.Config) { c.Store, c.Spool, c.Scratch = "/backup", "/var/spool/holdfast", "/var/tmp" },
		"bucket":    func(c *snapshot.Config) { c.Store = "s3://bucket/prefix" },
		"file URL":  func(c *snapshot.Config) { c.Store = "file:///backups/etcd/main" },
		"off":       func(c *snapshot.Config) { c.Every, c.Drill, c.Rate = 0, 0, 0 },
		"cron":      func(c *snapshot.Config) { c.Cron = "*/20 8-18 * * mon-fri" },
		"daily":     func(c *snapshot.Config) { c.Cron = "@daily" },
		"leap day":  func(c *snapshot.Config) { c.Cron = "0 0 29 2 *" },
		"only days": func(c *snapshot.Config) { c.Keep = snapshot.Keep{Daily: 24 * time.Hour, Newest: 1} },
		"newest":    func(c *snapshot.Config) { c.Keep = snapshot.Keep{Newest: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			c := snapshot.Default()
			change(&c)
			must(t, invalid.Join(c.Validate))
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(c *snapshot.Config){
		`snapshot.store: must be an absolute path, file:///path or s3://bucket/prefix, got "backup"`:                        func(c *snapshot.Config) { c.Store = "backup" },
		`snapshot.store: must be file:///path with an absolute path of this machine and without a host, got "file://nas/b"`: func(c *snapshot.Config) { c.Store = "file://nas/b" },
		`snapshot.store: must be a directory, file:///path or s3://bucket/prefix, got "gs://b/c"`:                           func(c *snapshot.Config) { c.Store = "gs://b/c" },
		`snapshot.spool: must be an absolute path, got "spool"`:                                                             func(c *snapshot.Config) { c.Spool = "spool" },
		`snapshot.scratch: must be an absolute path, got "tmp"`:                                                             func(c *snapshot.Config) { c.Scratch = "tmp" },
		`snapshot.identity-file: must be an absolute path, got "key"`:                                                       func(c *snapshot.Config) { c.IdentityFile = "key" },
		"snapshot.every: must be 0 (off) or at least 1s, got 1ms":                                                           func(c *snapshot.Config) { c.Every = time.Millisecond },
		"snapshot.every: must be 0 (off) or at least 1s, got -1h0m0s":                                                       func(c *snapshot.Config) { c.Every = -time.Hour },
		"snapshot.retry: must be at least 1s, got 0s":                                                                       func(c *snapshot.Config) { c.Retry = 0 },
		"snapshot.drill: must be 0 (off) or at least 1m, got 1s":                                                            func(c *snapshot.Config) { c.Drill = time.Second },
		"snapshot.rate: must be 0 (no bound) to 1048576 MiB a second, got -1":                                               func(c *snapshot.Config) { c.Rate = -1 },
		`snapshot.format: must be native or etcd-manager, got "tar"`:                                                        func(c *snapshot.Config) { c.Format = "tar" },
		`snapshot.compression: must be one of fastest, default, better, best, got "9"`:                                      func(c *snapshot.Config) { c.Compression = "9" },
		"snapshot.recipients: number 1: ":                                                                                   func(c *snapshot.Config) { c.Recipients, c.Drill = []string{"bob"}, 0 },
		`got "* * * *": expected exactly 5 fields`:                                                                          func(c *snapshot.Config) { c.Cron = "* * * *" },
		`got "61 * * * *": `: func(c *snapshot.Config) { c.Cron = "61 * * * *" },
		`got "0 0 31 2 *": no such time within five years`:                             func(c *snapshot.Config) { c.Cron = "0 0 31 2 *" },
		`got "@every 1h": set snapshot.every instead`:                                  func(c *snapshot.Config) { c.Cron = "@every 1h" },
		`got "TZ=": the time is always UTC`:                                            func(c *snapshot.Config) { c.Cron = "TZ=" },
		`got "CRON_TZ=Europe/Berlin 0 * * * *": the time is always UTC`:                func(c *snapshot.Config) { c.Cron = "CRON_TZ=Europe/Berlin 0 * * * *" },
		"snapshot.keep.all: must be 0 or more, got -1s":                                func(c *snapshot.Config) { c.Keep.All = -time.Second },
		"snapshot.keep.hourly: must be 0 (none) or at least snapshot.keep.all, 1h0m0s": func(c *snapshot.Config) { c.Keep.Hourly = time.Minute },
		"snapshot.keep.daily: must be 0 (none) or at least 168h0m0s":                   func(c *snapshot.Config) { c.Keep.Daily = time.Hour },
		"snapshot.keep.newest: must be at least 1, got 0":                              func(c *snapshot.Config) { c.Keep.Newest = 0 },
	} {
		c := snapshot.Default()
		change(&c)
		if err := invalid.Join(c.Validate); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Validate: want just %q, got %v", want, err)
		}
	}
	c := snapshot.Default()
	c.Recipients = []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}
	must(t, invalid.Join(c.Validate))
	if got := c.NoDrill(); !strings.Contains(got, "no identity") {
		t.Errorf("NoDrill with recipients only: want that there is no identity, got %q", got)
	}
	c.IdentityFile = "/key"
	if got := c.NoDrill(); got != "" {
		t.Errorf("NoDrill with both: want none, got %q", got)
	}
	c.Drill = 0
	if got := c.NoDrill(); got != "snapshot.drill is 0" {
		t.Errorf("NoDrill with drill 0: got %q", got)
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/b": "/b", "/b//c/": "/b//c/", "b": "b", "../b": "../b", "/a:b": "/a:b", "/50%": "/50%",
		"file:///b": "/b", "file:///b/c/": "/b/c/", "file:///": "/",
		"s3://b": "s3://b", "s3://b/50%": "s3://b/50%", "s3://": "s3://",
	} {
		if got, err := snapshot.ParseAddress(text); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	const noHost, noEscape, noOther = "must be file:///path", "must be the path alone", "must be a directory"
	for text, want := range map[string]string{
		"file://host/b": noHost, "file://localhost/b": noHost, "file://b": noHost, "file://./b": noHost, "file://": noHost,
		"file:/b": noHost, "file:b": noHost, "file:": noHost,
		"file:///a%20b": noEscape, "file:///a?b": noEscape, "file:///a#b": noEscape,
		"gs://b/c": noOther, "FILE:///b": noOther, "https://host/b": noOther,
	} {
		got, err := snapshot.ParseAddress(text)
		if got != "" || err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("%q: got %q, %v; want an error: %s", text, got, err, want)
		}
	}
}
