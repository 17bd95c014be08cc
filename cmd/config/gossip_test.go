package config

import (
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
		"files, insecure":       {func(c *Config) { c.TLS.Insecure = true }, false},
		"files on loopback":     {func(c *Config) { c.Gossip.Listen = "127.0.0.1:7946" }, false},
		"ca derives a key":      {func(c *Config) { c.TLS.Mode = pki.ModeCA }, false},
		"off is said elsewhere": {func(c *Config) { c.TLS.Mode = pki.ModeOff }, false},
	} {
		cfg := Default()
		cfg.TLS.Mode, cfg.Gossip.Listen = pki.ModeFiles, "10.0.0.1:7946"
		c.change(&cfg)
		found := gossipContradictions(cfg)
		if len(found) > 0 != c.wrong || c.wrong && found[0].keys[0] != "gossip.key-file" {
			t.Errorf("%s: got %v", name, found)
		}
	}
}
