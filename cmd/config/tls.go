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

// waysOut is the end of the errors about a cluster without TLS.
const waysOut = "give the nodes one backup store (snapshot.store: a bucket or a shared directory) for tls.mode auto, " +
	"or authorities of your own (`holdfast tls init DIR`, then tls.ca-dir), or say tls.mode off with tls.insecure true"

// tlsContradictions finds keys of TLS that exclude each other or other keys.
func tlsContradictions(c Config) []contradiction {
	var found []contradiction
	add := func(keys []string, format string, args ...any) {
		found = append(found, contradiction{keys, fmt.Sprintf(format, args...)})
	}
	mode, at := c.TLS.Mode, ""
	etcd := etcdFiles(&c)
	exposed := false
	if at, exposed = exposedAddress(c); exposed && mode == pki.ModeOff && !c.TLS.Insecure {
		add([]string{"tls.mode", "node.address"},
			"must not be off where other machines reach etcd (%s), and anyone who does could read and write every secret: %s",
			at, waysOut)
	}
	switch mode {
	case pki.ModeFiles:
		for _, k := range []struct{ Key, value, traffic string }{{"etcd.cert-file", c.Etcd.CertFile, "clients"},
			{"etcd.peer-cert-file", c.Etcd.PeerCertFile, "members"}} {
			if k.value == "" && exposed && !c.TLS.Insecure {
				add([]string{k.Key, "tls.mode", "node.address"},
					"must be set with tls.mode files where other machines reach etcd (%s), and its %s are to be sure of whom they "+
						"talk to; or say tls.insecure true", at, k.traffic)
			}
		}
	case pki.ModeOff:
		for _, k := range etcd {
			if *k.field != "" {
				add([]string{k.key, "tls.mode"},
					"must be empty with tls.mode off, got %q; certificates of your own are tls.mode files", *k.field)
			}
		}
	case pki.ModeCA, pki.ModeAuto:
		for i, k := range etcd {
			if *k.field != k.derived && (*k.field != "" || i < clientFiles || c.TLS.IssuesPeers()) {
				add([]string{k.key, "tls.mode"},
					"must be empty with tls.mode %s, in which holdfast issues it, got %q; certificates of your own are tls.mode files",
					mode, *k.field)
			}
		}
		for _, k := range []struct {
			Key  string
			list []string
		}{{"etcd.peer-cert-allowed-cn", c.Etcd.PeerCertAllowedCN},
			{"etcd.peer-cert-allowed-hostname", c.Etcd.PeerCertAllowedHostname}} {
			if len(k.list) > 0 {
				add([]string{k.Key, "tls.mode"},
					"must be empty with tls.mode %s, in which holdfast issues the members' certificates, got %q", mode, k.list)
			}
		}
	}
	if mode == pki.ModeAuto && c.Cluster.several() && !sharedStore(c) {
		count := fmt.Sprintf("%d slots", len(c.Cluster.Slots))
		if c.Cluster.TagSlots {
			count = "the slots of the volumes' tags"
		}
		add([]string{"snapshot.store", "tls.mode", "cluster.slots"},
			"must be set to what all nodes share with tls.mode auto and %s, got a directory of this node alone, so that each "+
				"would trust only itself: %s", count, waysOut)
	}
	return slices.Concat(found, plainContradictions(c), authorityContradictions(c), tlsDirectory(c))
}

// plainContradictions finds keys that leave out a part of TLS although that is not possible, or was not allowed with
// tls.insecure.
func plainContradictions(c Config) []contradiction {
	var found []contradiction
	add := func(key, other, format string, args ...any) {
		found = append(found, contradiction{[]string{key, other}, fmt.Sprintf(format, args...)})
	}
	if c.TLS.ClientsOnly && c.TLS.Mode != pki.ModeCA {
		add("tls.clients-only", "tls.mode", "must be false with tls.mode %s, got true: it is for mode ca; in mode files "+
			"leave the etcd.peer-*-file keys empty", c.TLS.Mode)
	}
	if c.TLS.PlainClients && c.Etcd.CertFile == "" {
		add("tls.plain-clients", "tls.mode", "must be false with tls.mode %s and no etcd.cert-file, got true: clients have "+
			"no TLS",
			c.TLS.Mode)
	}
	if c.TLS.FromHTTP && !c.GossipTLS() {
		add("tls.from-http", "tls.mode", "must be false where members have no TLS, got true with tls.mode %s: it is for "+
			"modes auto and ca, and for files with the etcd.peer-*-file keys", c.TLS.Mode)
	}
	at, exposed := exposedAddress(c)
	for _, k := range []struct {
		Key string
		set bool
	}{{"tls.clients-only", c.TLS.ClientsOnly},
		{"tls.plain-clients", c.TLS.PlainClients}, {"tls.from-http", c.TLS.FromHTTP}} {
		if k.set && exposed && !c.TLS.Insecure {
			add(k.Key, "tls.insecure", "must be false where other machines reach etcd (%s), got true, unless tls.insecure is "+
				"true", at)
		}
	}
	return found
}

// sharedStore reports whether the nodes may share the store. The default store is each node's own.
func sharedStore(c Config) bool {
	return c.Snapshot.InBucket() || Abs(c.Snapshot.Store) != Abs(filepath.Join(c.Node.DataDir, "snapshots"))
}

// authorityContradictions finds errors in the keys of the given authorities.
func authorityContradictions(c Config) []contradiction {
	var found []contradiction
	add := func(key, format string, args ...any) {
		found = append(found, contradiction{[]string{key, "tls.mode"}, fmt.Sprintf(format, args...)})
	}
	keys := authorityFiles(&c)
	if c.TLS.Mode != pki.ModeCA {
		for _, k := range append([]pathKey{{key: "tls.ca-dir", field: &c.TLS.CADir}}, keys...) {
			if *k.field != "" {
				add(k.key, "must be empty with tls.mode %s, got %q: only tls.mode ca has given authorities", c.TLS.Mode, *k.field)
			}
		}
		return found
	}
	for _, k := range keys {
		if *k.field == "" {
			add(k.key, "must be set with tls.mode ca, or tls.ca-dir for all four files; `holdfast tls init DIR` makes them")
		} else if _, err := os.Stat(*k.field); err != nil {
			add(k.key, "must be a file, got %q: %v", *k.field, err)
		}
	}
	return found
}

// tlsDirectory finds a tls.dir on a volume or in the store: this machine's keys must not move with a volume, nor be in
// the backups.
func tlsDirectory(c Config) []contradiction {
	if !c.TLS.Issues() {
		return nil
	}
	volumes, root := c.VolumeDirectory()
	places := [][2]string{{volumes, root}}
	if !c.Snapshot.InBucket() {
		places = append(places, [2]string{"snapshot.store", c.Snapshot.Store})
	}
	var found []contradiction
	for _, p := range places {
		if dir := Abs(p[1]); within(dir, Abs(c.TLS.Dir)) {
			found = append(found, contradiction{[]string{"tls.dir", p[0]},
				fmt.Sprintf("must not lie in %s (%s), for it is this machine's own, got %q", p[0], dir, c.TLS.Dir)})
		}
	}
	return found
}

// tlsDoubts returns a warning about the section tls, if any.
func tlsDoubts(c Config) []string {
	at, exposed := exposedAddress(c)
	switch {
	case c.Insecure():
		return []string{fmt.Sprintf("tls.insecure: true, and so anyone who reaches %s can read and write everything", at)}
	case exposed && c.Etcd.TrustedCAFile == "":
		return []string{fmt.Sprintf("etcd.trusted-ca-file: not set, anyone who reaches %s can read and write, unless "+
			"etcd's own authentication is on", at)}
	case exposed && c.TLS.Insecure && (c.TLS.Mode != pki.ModeAuto || !c.storeInClear()):
		return []string{fmt.Sprintf("tls.insecure: true means nothing here with tls.mode %s", c.TLS.Mode)}
	}
	return nil
}

// Insecure reports whether other machines can reach etcd without TLS, which the operator has allowed.
func (c Config) Insecure() bool {
	_, exposed := exposedAddress(c)
	return exposed && (c.TLS.PlainClients || c.TLS.FromHTTP || c.Etcd.CertFile == "" || c.Etcd.PeerCertFile == "")
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
