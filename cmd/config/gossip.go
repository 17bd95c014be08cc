package config

import (
	"fmt"
	"net"

	"holdfast/embedded/pki"
)

// gossipContradictions finds a gossip in the clear where TLS says that nothing is.
func gossipContradictions(c Config) []contradiction {
	host, _, err := net.SplitHostPort(c.Gossip.Listen)
	if c.TLS.Mode != pki.ModeFiles || c.TLS.Insecure || c.Gossip.KeyFile != "" || err != nil || isLoopback(host) {
		return nil
	}
	return []contradiction{{[]string{"gossip.key-file", "tls.mode", "gossip.listen"},
		fmt.Sprintf("must be set with tls.mode files, or anyone who reaches %s can join the gossip: `holdfast gossip keygen` prints a key for a file on each node; or say tls.insecure true", c.Gossip.Listen)}}
}
