package config

import (
	"holdfast/embedded/pki"
)

// autoContradictions finds what tls.mode auto cannot do with the store.
func autoContradictions(c Config) []contradiction {
	s := c.Snapshot
	if c.TLS.Mode != pki.ModeAuto || len(s.Recipients) == 0 || s.IdentityFile != "" {
		return nil
	}
	return []contradiction{{[]string{"snapshot.identity-file", "snapshot.recipients", "tls.mode"},
		"must be set with tls.mode auto and snapshot.recipients, for the authorities that the nodes share are encrypted like the backups; or use tls.mode ca (`holdfast tls init DIR`)"}}
}
