package config

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"holdfast/embedded/pki"
)

// The authorities in tls.ca-dir, named as kops and etcd-manager name them.
const (
	GivenClientsCA = "etcd-clients-ca"
	GivenPeersCA   = "etcd-peers-ca"
)

// pathKey is a key that names a file, with its field, and the path that it gets if it is derived from another key.
type pathKey struct {
	key     string
	field   *string
	derived string
}

// clientFiles is how many of etcdFiles are for clients; they come first.
const clientFiles = 3

// etcdFiles returns the keys of etcd's TLS files, with the path of each file if holdfast issues the certificates.
func etcdFiles(c *Config) []pathKey {
	f := c.TLS.Files()
	return []pathKey{
		{"etcd.cert-file", &c.Etcd.CertFile, f.Server}, {"etcd.key-file", &c.Etcd.KeyFile, f.Server},
		{"etcd.trusted-ca-file", &c.Etcd.TrustedCAFile, f.ClientsCA},
		{"etcd.peer-cert-file", &c.Etcd.PeerCertFile, f.Peer}, {"etcd.peer-key-file", &c.Etcd.PeerKeyFile, f.Peer},
		{"etcd.peer-trusted-ca-file", &c.Etcd.PeerTrustedCAFile, f.PeersCA},
	}
}

// authorityFiles returns the keys of the given authorities, with the path of each file below tls.ca-dir.
func authorityFiles(c *Config) []pathKey {
	in := func(name string) string { return filepath.Join(c.TLS.CADir, name) }
	return []pathKey{
		{"tls.client-ca-file", &c.TLS.ClientCAFile, in(GivenClientsCA + ".crt")},
		{"tls.client-ca-key-file", &c.TLS.ClientCAKeyFile, in(GivenClientsCA + ".key")},
		{"tls.peer-ca-file", &c.TLS.PeerCAFile, in(GivenPeersCA + ".crt")},
		{"tls.peer-ca-key-file", &c.TLS.PeerCAKeyFile, in(GivenPeersCA + ".key")},
	}
}

func anySet(keys []pathKey) bool {
	return slices.ContainsFunc(keys, func(k pathKey) bool { return *k.field != "" })
}

// deriveTLS decides the mode if tls.mode is not set, and fills in the files that follow from the mode.
func deriveTLS(c *Config, origin map[string]string, fill func(key string, field *string, source, value string)) {
	c.Etcd.PlainClients, c.Etcd.FromHTTP = c.TLS.PlainClients, c.TLS.FromHTTP
	fill("tls.dir", &c.TLS.Dir, "node.data-dir", Abs(filepath.Join(c.Node.DataDir, "tls")))
	etcd, authorities := etcdFiles(c), authorityFiles(c)
	if c.TLS.Mode == "" {
		mode, source := decideMode(c, anySet(etcd), c.TLS.CADir != "" || anySet(authorities))
		fill("tls.mode", &c.TLS.Mode, source, mode)
	}
	if c.TLS.Mode == pki.ModeCA && c.TLS.CADir != "" {
		for _, k := range authorities {
			fill(k.key, k.field, "tls.ca-dir", k.derived)
		}
	}
	if !c.TLS.Issues() {
		return
	}
	for i, k := range etcd {
		if i < clientFiles || c.TLS.IssuesPeers() {
			fill(k.key, k.field, "tls.mode", k.derived)
		}
	}
	c.Etcd.Issued = true
	if !c.Etcd.ClientCertAuth { // a client's certificate also names its user of etcd
		c.Etcd.ClientCertAuth, origin["etcd.client-cert-auth"] = true, derivedFrom+"tls.mode"
	}
}

// decideMode returns the mode of a configuration without tls.mode, and the key that it follows from.
func decideMode(c *Config, files, authorities bool) (mode, source string) {
	_, exposed := exposedAddress(*c)
	switch {
	case files:
		return pki.ModeFiles, "etcd.cert-file"
	case authorities:
		return pki.ModeCA, "tls.ca-dir"
	case !exposed:
		return pki.ModeOff, "node.address"
	case c.TLS.Insecure:
		return pki.ModeOff, "tls.insecure"
	default:
		return pki.ModeAuto, "node.address"
	}
}

// exposedAddress returns the first key and value with an address that other machines can reach.
func exposedAddress(c Config) (at string, exposed bool) {
	if ip, err := netip.ParseAddr(c.Node.Address); err == nil && !ip.IsLoopback() {
		return "node.address " + c.Node.Address, true
	}
	for _, a := range append([]listenAddress{{"gossip.listen", c.Gossip.Listen}}, etcdListeners(c)...) {
		if host, _, err := net.SplitHostPort(a.hostport); err == nil && !isLoopback(host) {
			return a.key + " " + a.hostport, true
		}
	}
	return "", false
}

// partial finds files of authorities with which etcd would not start, or of which it would silently skip a part. A
// command that only asks a node does without them.
func (l *Loaded) partial() (all []Wrong) {
	if l.Config.TLS.Mode != pki.ModeFiles {
		return nil
	}
	for _, f := range []struct{ key, path string }{
		{"etcd.trusted-ca-file", l.Config.Etcd.TrustedCAFile}, {"etcd.peer-trusted-ca-file", l.Config.Etcd.PeerTrustedCAFile},
	} {
		text, err := os.ReadFile(f.path)
		if err != nil { // it is not set, or reported as such
			continue
		}
		if _, err = pki.ParseCertificates(text); err != nil {
			all = append(all, l.wrong(f.key, "must hold CA certificates and nothing else, got %q: %v", f.path, err))
		}
	}
	return all
}

// Insecure reports whether other machines can reach etcd without TLS, which the operator has allowed.
func (c Config) Insecure() bool {
	_, exposed := exposedAddress(c)
	return exposed && (c.TLS.PlainClients || c.TLS.FromHTTP || c.Etcd.CertFile == "" || c.Etcd.PeerCertFile == "")
}

// GossipTLS reports whether the gossip uses TLS. It does if the members do, and have the peers' authorities.
func (c Config) GossipTLS() bool {
	return c.TLS.IssuesPeers() ||
		c.TLS.Mode == pki.ModeFiles && c.Etcd.PeerCertFile != "" && c.Etcd.PeerTrustedCAFile != ""
}

// ReadPool reads authorities from a PEM file.
func ReadPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read %s: no certificate in it", file)
	}
	return pool, nil
}
