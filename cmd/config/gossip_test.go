package config

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/embedded/pki"
)

func TestGossipInTheClearIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		wrong  bool
	}{
		"files":                 {func(*Config) {}, true},
		"files on every one":    {func(c *Config) { c.Gossip.Listen = "0.0.0.0:7946" }, true},
		"files with a key":      {func(c *Config) { c.Gossip.KeyFile = "/etc/key" }, false},
		"files of the peers":    {func(c *Config) { c.Etcd.PeerCertFile, c.Etcd.PeerTrustedCAFile = "/etc/p", "/etc/ca" }, false},
		"files of no authority": {func(c *Config) { c.Etcd.PeerCertFile = "/etc/p" }, true},
		"files, insecure":       {func(c *Config) { c.TLS.Insecure = true }, false},
		"files on loopback":     {func(c *Config) { c.Gossip.Listen = "127.0.0.1:7946" }, false},
		"ca issues":             {func(c *Config) { c.TLS.Mode = pki.ModeCA }, false},
		"off is said elsewhere": {func(c *Config) { c.TLS.Mode = pki.ModeOff }, false},
	} {
		cfg := Default()
		cfg.TLS.Mode, cfg.Gossip.Listen = pki.ModeFiles, "10.0.0.1:7946"
		c.change(&cfg)
		var found []string
		cfg.tls(func(keys, format string, args ...any) {
			if strings.HasSuffix(keys, " gossip.listen") {
				found = append(found, keys+": "+fmt.Sprintf(format, args...))
			}
		})
		if len(found) > 0 != c.wrong || c.wrong && !strings.HasPrefix(found[0], "etcd.peer-trusted-ca-file ") {
			t.Errorf("%s: got %q", name, found)
		}
	}
}

func TestGossipDoubts(t *testing.T) {
	for name, c := range map[string]struct {
		mode, key, at string
		want          string
	}{
		"a key that nobody uses": {pki.ModeAuto, "/etc/key", "10.0.0.1:7946", "gossip.key-file: not used with tls.mode auto"},
		"no key":                 {pki.ModeOff, "", "10.0.0.1:7946", "gossip.key-file: not set"},
		"no key on loopback":     {pki.ModeOff, "", "127.0.0.1:7946", ""},
		"a key":                  {pki.ModeOff, "/etc/key", "10.0.0.1:7946", ""},
		"TLS":                    {pki.ModeCA, "", "10.0.0.1:7946", ""},
	} {
		cfg := Default()
		cfg.TLS.Mode, cfg.Gossip.KeyFile, cfg.Gossip.Listen = c.mode, c.key, c.at
		var all []string
		cfg.gossipDoubts(func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) })
		got := strings.Join(all, "; ")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
