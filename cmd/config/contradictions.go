package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holdfast/embedded/pki"
	"holdfast/snapshot"
	"holdfast/volume"
)

// clash reports an error in the combination of two or more keys, which spaces separate. The first is the one to change.
type clash func(keys, format string, args ...any)

// contradictions reports the errors in combinations of keys.
func (c Config) contradictions(clash clash) {
	c.listeners(clash)
	c.control(clash)
	c.tls(clash)
	c.directories(clash)
	slots := strings.Join(c.Cluster.Slots, ", ")
	if n := c.Cluster.Size; n > 0 && !slices.Equal(c.Cluster.Slots, Sized(n)) {
		clash("cluster.size cluster.slots", "%d means the slots %s, but cluster.slots is %s: set only one of the two", n,
			strings.Join(Sized(n), ","), strings.Join(c.Cluster.Slots, ","))
	}
	if slot := c.Volume.Local.Slot; slot != "" && !slices.Contains(c.Cluster.Slots, slot) {
		clash("volume.local.slot cluster.slots", "must be one of cluster.slots (%s), got %q", slots, slot)
	}
	if l := c.Volume.Local; l.Root != "" && l.Directory != "" {
		clash("volume.local.root volume.local.directory",
			"must not be set with volume.local.directory (%s), which is the volume itself, got %q", l.Directory, l.Root)
	}
	if ip, err := netip.ParseAddr(c.Node.Address); c.Volume.Provider == volume.ProviderEBS && c.Cluster.several() &&
		err == nil && ip.IsLoopback() {
		clash("node.address volume.provider cluster.slots",
			"must be an address that the nodes on other instances reach, or auto, got %q", c.Node.Address)
	}
	if len(c.Cluster.AdoptAddresses) > 0 && !c.Cluster.Adopt {
		clash("cluster.adopt-addresses cluster.adopt", "must not be set without cluster.adopt, got %s",
			strings.Join(c.Cluster.AdoptAddresses, ","))
		return
	}
	for _, slot := range slices.Sorted(maps.Keys(c.Cluster.Elders())) {
		if !c.Cluster.TagSlots && !slices.Contains(c.Cluster.Slots, slot) {
			clash("cluster.adopt-addresses cluster.slots", "must name slots of cluster.slots (%s), got %q", slots, slot)
		}
	}
}

// listeners finds addresses that two parts of a node would listen at.
func (c Config) listeners(clash clash) {
	all := Endpoints(c)
	for i, b := range all {
		for _, a := range all[:i] {
			if a.Port == b.Port && (a.Host == b.Host || a.Host == "" || b.Host == "") {
				clash(b.Key+" "+a.Key, "must not share an address and port with %s, got %s", a.Key,
					net.JoinHostPort(b.Host, b.Port))
			}
		}
	}
}

// directories finds backups and volumes inside each other: if one of them is lost, moved or emptied, so is the other.
// It also finds a tls.dir on a volume or in the store: this machine's keys must not move with a volume, nor be in the
// backups. Keys of backups that exclude each other are found here as well.
func (c Config) directories(clash clash) {
	type directory struct{ key, path string }
	key, path := c.VolumeDirectory()
	s, shared := c.Snapshot, []directory{{key, path}}
	if !s.InBucket() {
		shared = append(shared, directory{"snapshot.store", s.Store})
	}
	all := slices.Clone(shared)
	if s.Spool != "" {
		all = append(all, directory{"snapshot.spool", s.Spool})
	}
	all = append(all, directory{"snapshot.scratch", s.Scratch})
	for i, from := range all {
		for _, d := range all[i+1:] {
			if a, b := Abs(from.path), Abs(d.path); within(a, b) || within(b, a) {
				clash(d.key+" "+from.key, "must not lie in %s (%s) nor hold it, got %q", from.key, a, d.path)
			}
		}
	}
	for _, d := range shared {
		if dir := Abs(d.path); c.TLS.Issues() && within(dir, Abs(c.TLS.Dir)) {
			clash("tls.dir "+d.key, "must not lie in %s (%s), for it is this machine's own, got %q", d.key, dir, c.TLS.Dir)
		}
	}
	if s.Format == snapshot.FormatManager && len(s.Recipients) > 0 {
		clash("snapshot.recipients snapshot.format",
			"must be empty with snapshot.format %s, which knows no encryption, got %d", s.Format, len(s.Recipients))
	}
	if s.Cron != "" && s.Every != snapshot.Default().Every && s.Every != 0 {
		clash("snapshot.cron snapshot.every", "must be empty where snapshot.every is set (to %s), got %q",
			FormatDuration(s.Every), s.Cron)
	}
}

// control finds a control.listen that would admit nobody, or everybody.
func (c Config) control(clash clash) {
	const keys = "control.listen control.readers control.operators"
	k := c.Control
	named := len(k.Readers)+len(k.Operators) > 0
	if k.Listen != "" && (c.Etcd.CertFile == "" || c.Etcd.TrustedCAFile == "") {
		clash("control.listen etcd.cert-file etcd.trusted-ca-file", "must be empty without TLS and an authority that signs "+
			"clients' certificates (tls.mode, or etcd.cert-file and etcd.trusted-ca-file), got %q", k.Listen)
	}
	if k.Listen != "" && !named && !c.TLS.Issues() { // else clients renew their certificates
		clash(keys, "nobody may use it: name certificates in control.readers or control.operators, got %q", k.Listen)
	}
	if k.Listen == "" && named {
		clash(keys, "must be set for control.readers and control.operators to mean anything, got %q", k.Listen)
	}
}

// waysOut is the end of the errors about a cluster without TLS.
const waysOut = "give the nodes one backup store (snapshot.store: a bucket or a shared directory) for tls.mode auto, " +
	"or authorities of your own (`holdfast tls init DIR`, then tls.ca-dir), or say tls.mode off with tls.insecure true"

// tls finds keys of TLS that exclude each other or other keys.
func (c Config) tls(clash clash) {
	mode, etcd := c.TLS.Mode, etcdFiles(&c)
	at, exposed := exposedAddress(c)
	forbidden := exposed && !c.TLS.Insecure // what is not secure, without tls.insecure
	if forbidden && mode == pki.ModeOff {
		clash("tls.mode node.address",
			"must not be off where other machines reach etcd (%s), and anyone who does could read and write every secret: %s",
			at, waysOut)
	}
	switch mode {
	case pki.ModeFiles:
		for _, k := range []struct{ key, value, traffic string }{{"etcd.cert-file", c.Etcd.CertFile, "clients"},
			{"etcd.peer-cert-file", c.Etcd.PeerCertFile, "members"}} {
			if k.value == "" && forbidden {
				clash(k.key+" tls.mode node.address",
					"must be set with tls.mode files where other machines reach etcd (%s), and its %s are to be sure of whom they "+
						"talk to; or say tls.insecure true", at, k.traffic)
			}
		}
		if host, _, err := net.SplitHostPort(c.Gossip.Listen); !c.GossipTLS() && !c.TLS.Insecure &&
			c.Gossip.KeyFile == "" && err == nil && !isLoopback(host) {
			clash("etcd.peer-trusted-ca-file tls.mode gossip.listen", "must be set with tls.mode files, as "+
				"etcd.peer-cert-file, or anyone who reaches %s can join the gossip; or say tls.insecure true", c.Gossip.Listen)
		}
	case pki.ModeOff:
		for _, k := range etcd {
			if *k.field != "" {
				clash(k.key+" tls.mode", "must be empty with tls.mode off, got %q; certificates of your own are tls.mode files",
					*k.field)
			}
		}
	case pki.ModeCA, pki.ModeAuto:
		for i, k := range etcd {
			if *k.field != k.derived && (*k.field != "" || i < clientFiles || c.TLS.IssuesPeers()) {
				clash(k.key+" tls.mode", "must be empty with tls.mode %s, in which holdfast issues it, got %q; certificates of "+
					"your own are tls.mode files", mode, *k.field)
			}
		}
		for _, k := range []struct {
			key  string
			list []string
		}{{"etcd.peer-cert-allowed-cn", c.Etcd.PeerCertAllowedCN},
			{"etcd.peer-cert-allowed-hostname", c.Etcd.PeerCertAllowedHostname}} {
			if len(k.list) > 0 {
				clash(k.key+" tls.mode",
					"must be empty with tls.mode %s, in which holdfast issues the members' certificates, got %q", mode, k.list)
			}
		}
	}
	if c.TLS.ClientsOnly && mode != pki.ModeCA {
		clash("tls.clients-only tls.mode", "must be false with tls.mode %s, got true: it is for mode ca; in mode files "+
			"leave the etcd.peer-*-file keys empty", mode)
	}
	if c.TLS.PlainClients && c.Etcd.CertFile == "" {
		clash("tls.plain-clients tls.mode", "must be false with tls.mode %s and no etcd.cert-file, got true: clients have "+
			"no TLS", mode)
	}
	if c.TLS.FromHTTP && !c.GossipTLS() {
		clash("tls.from-http tls.mode", "must be false where members have no TLS, got true with tls.mode %s: it is for "+
			"modes auto and ca, and for files with the etcd.peer-*-file keys", mode)
	}
	for _, k := range []struct {
		key string
		set bool
	}{{"tls.clients-only", c.TLS.ClientsOnly},
		{"tls.plain-clients", c.TLS.PlainClients}, {"tls.from-http", c.TLS.FromHTTP}} {
		if k.set && forbidden {
			clash(k.key+" tls.insecure", "must be false where other machines reach etcd (%s), got true, unless tls.insecure is "+
				"true", at)
		}
	}
	c.givenAuthorities(clash)
	c.sharedAuthorities(clash)
}

// givenAuthorities finds errors in the keys of the given authorities.
func (c Config) givenAuthorities(clash clash) {
	keys := authorityFiles(&c)
	if c.TLS.Mode != pki.ModeCA {
		for _, k := range append([]pathKey{{key: "tls.ca-dir", field: &c.TLS.CADir}}, keys...) {
			if *k.field != "" {
				clash(k.key+" tls.mode", "must be empty with tls.mode %s, got %q: only tls.mode ca has given authorities",
					c.TLS.Mode, *k.field)
			}
		}
		return
	}
	for _, k := range keys {
		if *k.field == "" {
			clash(k.key+" tls.mode",
				"must be set with tls.mode ca, or tls.ca-dir for all four files; `holdfast tls init DIR` makes them")
		} else if _, err := os.Stat(*k.field); err != nil {
			clash(k.key+" tls.mode", "must be a file, got %q: %v", *k.field, err)
		}
	}
}

// sharedAuthorities finds stores with which tls.mode auto is not possible: the nodes share the authorities there. The
// default store is each node's own.
func (c Config) sharedAuthorities(clash clash) {
	s := c.Snapshot
	own := !s.InBucket() && Abs(s.Store) == Abs(filepath.Join(c.Node.DataDir, "snapshots"))
	switch {
	case c.TLS.Mode != pki.ModeAuto:
		return
	case len(s.Recipients) == 0 && c.storeInClear() && !c.TLS.Insecure:
		clash("snapshot.s3.endpoint snapshot.recipients tls.mode",
			"must be https with tls.mode auto, got %q: the keys of the authorities would cross the network in the clear; or "+
				"set snapshot.recipients, which encrypts them, use tls.mode ca (`holdfast tls init DIR`), or say tls.mode auto "+
				"with tls.insecure true", s.S3.Endpoint)
	case len(s.Recipients) > 0 && s.IdentityFile == "":
		clash("snapshot.identity-file snapshot.recipients tls.mode",
			"must be set with tls.mode auto and snapshot.recipients, for the authorities that the nodes share are encrypted "+
				"like the backups; or use tls.mode ca (`holdfast tls init DIR`)")
	}
	if own && c.Cluster.several() {
		count := fmt.Sprintf("%d slots", len(c.Cluster.Slots))
		if c.Cluster.TagSlots {
			count = "the slots of the volumes' tags"
		}
		clash("snapshot.store tls.mode cluster.slots",
			"must be set to what all nodes share with tls.mode auto and %s, got a directory of this node alone, so that each "+
				"would trust only itself: %s", count, waysOut)
	}
}

// storeInClear reports whether the connection to the backup store crosses a network without TLS.
func (c Config) storeInClear() bool {
	u, err := url.Parse(c.Snapshot.S3.Endpoint)
	return err == nil && c.Snapshot.InBucket() && strings.EqualFold(u.Scheme, "http") && !isLoopback(u.Hostname())
}
