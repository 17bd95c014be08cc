package config

import (
	"fmt"
	"net/url"
	"strings"

	"holdfast/embedded/pki"
)

// autoContradictions finds stores with which tls.mode auto is not possible.
func autoContradictions(c Config) []contradiction {
	s := c.Snapshot
	switch {
	case c.TLS.Mode != pki.ModeAuto:
	case len(s.Recipients) == 0 && c.storeInClear() && !c.TLS.Insecure:
		return []contradiction{{[]string{"snapshot.s3.endpoint", "snapshot.recipients", "tls.mode"},
			fmt.Sprintf("must be https with tls.mode auto, got %q: the keys of the authorities would cross the network in the "+
				"clear; or set snapshot.recipients, which encrypts them, use tls.mode ca (`holdfast tls init DIR`), or say "+
				"tls.mode auto with tls.insecure true",
				s.S3.Endpoint)}}
	case len(s.Recipients) > 0 && s.IdentityFile == "":
		return []contradiction{{[]string{"snapshot.identity-file", "snapshot.recipients", "tls.mode"},
			"must be set with tls.mode auto and snapshot.recipients, for the authorities that the nodes share are encrypted " +
				"like the backups; or use tls.mode ca (`holdfast tls init DIR`)"}}
	}
	return nil
}

// storeInClear reports whether the connection to the backup store crosses a network without TLS.
func (c Config) storeInClear() bool {
	u, err := url.Parse(c.Snapshot.S3.Endpoint)
	return err == nil && c.Snapshot.InBucket() && strings.EqualFold(u.Scheme, "http") && !isLoopback(u.Hostname())
}
