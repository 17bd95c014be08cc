package config

import (
	"fmt"
	"net"

	"holdfast/embedded/pki"
)

// GossipTLS reports whether the gossip uses TLS. It does if the members do, and have the peers' authorities.
func (c Config) GossipTLS() bool {
	return c.TLS.IssuesPeers() ||
		c.TLS.Mode == pki.ModeFiles && c.Etcd.PeerCertFile != "" && c.Etcd.PeerTrustedCAFile != ""
}

// gossipContradictions finds a gossip without TLS or key although tls.mode is files.
func gossipContradictions(c Config) []contradiction {
	host, _, err := net.SplitHostPort(c.Gossip.Listen)
	if c.TLS.Mode != pki.ModeFiles || c.GossipTLS() || c.TLS.Insecure || c.Gossip.KeyFile != "" || err != nil ||
		isLoopback(host) {
		return nil
	}
	return []contradiction{{[]string{"etcd.peer-trusted-ca-file", "tls.mode", "gossip.listen"},
		fmt.Sprintf("must be set with tls.mode files, as etcd.peer-cert-file, or anyone who reaches %s can join the "+
			"gossip; or say tls.insecure true", c.Gossip.Listen)}}
}

// gossipDoubts returns warnings about the section gossip.
func gossipDoubts(c Config) []string {
	host, _, err := net.SplitHostPort(c.Gossip.Listen)
	switch {
	case c.GossipTLS() && c.Gossip.KeyFile != "":
		return []string{fmt.Sprintf("gossip.key-file: not used with tls.mode %s, where the gossip goes over TLS: remove it",
			c.TLS.Mode)}
	case !c.GossipTLS() && c.Gossip.KeyFile == "" && err == nil && !isLoopback(host):
		return []string{fmt.Sprintf("gossip.key-file: not set, anyone who reaches %s can join the gossip", c.Gossip.Listen)}
	}
	return nil
}
