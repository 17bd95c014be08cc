package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"holdfast/gossip"
	"holdfast/snapshot"
	"holdfast/volume"
)

// derivedFrom begins the origin of a value that follows from another key.
const derivedFrom = "derived from "

// metricsPort is etcd's peer port plus 10. kops may run several clusters on one machine, with the peer ports 2380 to
// 2383. It uses 3991 to 3997 and 4001 to 4006 for etcd's other ports. So each cluster's peer port plus 10 is free.
const metricsPort = 2390

// derive fills in empty values that follow from other keys, and notes in origin from which. environ has the form of
// os.Environ.
func derive(c *Config, origin map[string]string, environ []string) {
	fill := func(key string, field *string, source, value string) {
		if *field == "" {
			*field, origin[key] = value, derivedFrom+source
		}
	}
	path := func(name string) string { return Abs(filepath.Join(c.Node.DataDir, name)) }
	listen := func(port int) string { return net.JoinHostPort(c.Node.Address, strconv.Itoa(port)) }

	if c.Cluster.Size > 0 && origin["cluster.slots"] == OriginDefault {
		c.Cluster.Slots, origin["cluster.slots"] = Sized(c.Cluster.Size), derivedFrom+"cluster.size"
	}
	if set := origin["cluster.slots"] != OriginDefault && len(c.Cluster.Slots) > 0; !set && c.Cluster.Size == 0 &&
		c.Volume.Provider == volume.ProviderEBS && c.Volume.EBS.NamesSlots(c.Cluster.Name) {
		c.Cluster.Slots, c.Cluster.TagSlots = nil, true
		origin["cluster.slots"] = derivedFrom + "the tags of the volumes"
	}
	c.Cluster.Unset = origin["cluster.slots"] == OriginDefault
	host, _ := os.Hostname() // Validate reports an empty name
	fill("node.name", &c.Node.Name, "the host name", strings.ToLower(host))
	fill("gossip.listen", &c.Gossip.Listen, "node.address", listen(gossip.DefaultPort))
	fill("metrics.listen", &c.Metrics.Listen, "node.address", listen(metricsPort))
	if c.Volume.Local.Directory == "" {
		fill("volume.local.root", &c.Volume.Local.Root, "node.data-dir", path("volumes"))
	}
	fill("volume.ebs.mount-root", &c.Volume.EBS.MountRoot, "node.data-dir", path("mounts"))
	fill("snapshot.store", &c.Snapshot.Store, "node.data-dir", path("snapshots"))
	if at, err := snapshot.ParseAddress(c.Snapshot.Store); err == nil { // Validate reports the error
		c.Snapshot.Store = at
	}
	if c.Snapshot.InBucket() {
		for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} { // as the SDK does, in this order
			if value, err := lookUpVariable(name, environ); err == nil && value != "" {
				fill("snapshot.s3.endpoint", &c.Snapshot.S3.Endpoint, name, value)
			}
		}
		// Only a bucket needs a spool: a directory takes a backup as fast as the spool would.
		fill("snapshot.spool", &c.Snapshot.Spool, "node.data-dir", path("spool"))
	}
	fill("snapshot.scratch", &c.Snapshot.Scratch, "node.data-dir", path("scratch"))
	fill("control.socket", &c.Control.Socket, "node.data-dir", path("holdfast.sock"))

	deriveTLS(c, origin, fill)

	before := *c
	c.Etcd = c.Etcd.Resolve(c.Node.Address)
	for _, k := range Keys() {
		if k.Text(c) != k.Text(&before) {
			origin[k.Name] = derivedFrom + "node.address"
		}
	}
	fill("etcd.peer-url", &c.Etcd.PeerURL, "cluster.name", ownPeerURL(*c))
}

// Zone returns the domain of the host names that holdfast makes for members: CLUSTER.DOMAIN.
func (c Config) Zone() string { return c.Cluster.Name + "." + c.Cluster.Domain }

// OwnPeerHost returns the pattern of the host names that holdfast makes for members.
func (c Config) OwnPeerHost() string { return SlotMark + "." + c.Zone() }

// ownPeerURL returns the pattern of the peer URLs that holdfast makes: a name that never changes, with the port on
// which etcd listens. It is "" if a part is wrong, because the error is about that part's own key.
func ownPeerURL(c Config) string {
	own := c.Etcd.ListenPeerURLs[0]
	for _, text := range c.Etcd.ListenPeerURLs { // with tls.from-http, the https URL is the lasting one
		if c.TLS.FromHTTP && strings.HasPrefix(text, "https://") {
			own = text
			break
		}
	}
	u, err := url.Parse(own)
	named := clusterName.MatchString(c.Cluster.Name) && domainName.MatchString(c.Cluster.Domain)
	if err != nil || u.Port() == "" || (u.Scheme == "https") != (c.Etcd.PeerCertFile != "") || !named {
		return ""
	}
	return u.Scheme + "://" + c.OwnPeerHost() + ":" + u.Port()
}

// Endpoint is an address where a node listens (TCP), with its key.
type Endpoint struct {
	Key  string
	Host string // empty: every address
	Port string
}

// Endpoints returns the addresses where a node of this configuration listens, without those with port 0.
func Endpoints(c Config) []Endpoint {
	var all []Endpoint
	add := func(key, hostport string) {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil || port == "0" { // Validate reports a wrong address; port 0 means any free port
			return
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			host = ""
		} else if host == "localhost" {
			host = "127.0.0.1"
		}
		all = append(all, Endpoint{key, host, port})
	}
	add("gossip.listen", c.Gossip.Listen)
	add("metrics.listen", c.Metrics.Listen)
	add("metrics.pprof", c.Metrics.Pprof)
	add("control.listen", c.Control.Listen)
	for _, l := range etcdListeners(c) {
		add(l.key, l.hostport)
	}
	return all
}

// listenAddress is an address at which a node listens, with its key.
type listenAddress struct{ key, hostport string }

// etcdListeners returns the addresses at which etcd listens, without those that are no URLs.
func etcdListeners(c Config) []listenAddress {
	var all []listenAddress
	for _, urls := range []struct {
		Key  string
		list []string
	}{
		{"etcd.listen-client-urls", c.Etcd.ListenClientURLs},
		{"etcd.listen-client-http-urls", c.Etcd.ListenClientHTTPURLs},
		{"etcd.listen-peer-urls", c.Etcd.ListenPeerURLs},
	} {
		for _, text := range urls.list {
			if u, err := url.Parse(text); err == nil {
				all = append(all, listenAddress{urls.Key, u.Host})
			}
		}
	}
	return all
}

// Abs returns the absolute path, or the cleaned path if there is no working directory.
func Abs(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// addressAuto as node.address means the address from which this machine reaches other machines. With it, machines made
// from one image can share one configuration.
const addressAuto = "auto"

// nowhere are addresses that no machine has (RFC 5737, RFC 3849), so only the default route leads to them.
var nowhere = []struct{ network, address string }{
	{"udp4", "203.0.113.1:9"},
	{"udp6", "[2001:db8::1]:9"},
}

// resolveAddress replaces auto by this machine's address.
func (l *Loaded) resolveAddress() error {
	if l.Config.Node.Address != addressAuto {
		return nil
	}
	ip, err := OwnAddress()
	if err != nil {
		return l.wrong("node.address", "%v", err)
	}
	l.Config.Node.Address = ip.String()
	l.Origin["node.address"] += " (auto: " + ip.String() + ")"
	return nil
}

// OwnAddress returns the address for node.address auto: the preferred source address of the default route, IPv4 before
// IPv6. Without a default route, it returns the machine's address if there is only one.
func OwnAddress() (netip.Addr, error) {
	for _, to := range nowhere {
		// The kernel picks route and source when a UDP socket is connected; nothing is sent.
		conn, err := net.Dial(to.network, to.address)
		if err != nil {
			continue // there is no route, or no such protocol
		}
		local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		conn.Close()
		if local.IsGlobalUnicast() {
			return local, nil
		}
	}
	if all := globalAddresses(); len(all) == 1 {
		return all[0], nil
	}
	return netip.Addr{}, errors.New("auto found no default route: set an IP address")
}

// globalAddresses returns the addresses of the interfaces that are up, without loopback and link-local ones.
func globalAddresses() []netip.Addr {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, i := range interfaces {
		prefixes, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, p := range prefixes {
			if prefix, err := netip.ParsePrefix(p.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
				all = append(all, prefix.Addr().Unmap())
			}
		}
	}
	return all
}
