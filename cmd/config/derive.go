package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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

// peerURLDoubts returns a warning if etcd.peer-url has a port on which etcd does not listen.
func peerURLDoubts(c Config) []string {
	u, err := url.Parse(strings.Replace(c.Etcd.PeerURL, SlotMark, "x", 1))
	if err != nil || slices.ContainsFunc(c.Etcd.ListenPeerURLs, func(text string) bool {
		l, err := url.Parse(text)
		return err == nil && l.Port() == u.Port()
	}) {
		return nil
	}
	return []string{fmt.Sprintf("etcd.peer-url: %s, but etcd listens for members at %s: something must forward the one "+
		"port to the other", c.Etcd.PeerURL, strings.Join(c.Etcd.ListenPeerURLs, ", "))}
}

// contradiction is an error in the combination of two or more keys.
type contradiction struct {
	keys    []string // the first is the one to change
	problem string
}

// contradictions returns the errors in combinations of keys.
func contradictions(c Config) []contradiction {
	found := slices.Concat(sharedListeners(c), nestedDirectories(c), gossipContradictions(c), backupContradictions(c),
		controlContradictions(c), tlsContradictions(c), autoContradictions(c), adoptContradictions(c))
	if n := c.Cluster.Size; n > 0 && !slices.Equal(c.Cluster.Slots, Sized(n)) {
		found = append(found, contradiction{[]string{"cluster.size", "cluster.slots"},
			fmt.Sprintf("%d means the slots %s, but cluster.slots is %s: set only one of the two", n,
				strings.Join(Sized(n), ","), strings.Join(c.Cluster.Slots, ","))})
	}
	if slot := c.Volume.Local.Slot; slot != "" && !slices.Contains(c.Cluster.Slots, slot) {
		found = append(found, contradiction{[]string{"volume.local.slot", "cluster.slots"},
			fmt.Sprintf("must be one of cluster.slots (%s), got %q", strings.Join(c.Cluster.Slots, ", "), slot)})
	}
	if l := c.Volume.Local; l.Root != "" && l.Directory != "" {
		found = append(found, contradiction{[]string{"volume.local.root", "volume.local.directory"},
			fmt.Sprintf("must not be set with volume.local.directory (%s), which is the volume itself, got %q", l.Directory,
				l.Root)})
	}
	if ip, err := netip.ParseAddr(c.Node.Address); c.Volume.Provider == volume.ProviderEBS && c.Cluster.several() &&
		err == nil && ip.IsLoopback() {
		found = append(found, contradiction{[]string{"node.address", "volume.provider", "cluster.slots"},
			fmt.Sprintf("must be an address that the nodes on other instances reach, or auto, got %q", c.Node.Address)})
	}
	return found
}

// Endpoint is an address where a node listens (TCP; gossip without TLS uses UDP as well), with its key.
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

func sharedListeners(c Config) []contradiction {
	var found []contradiction
	all := Endpoints(c)
	for i, b := range all {
		for _, a := range all[:i] {
			if a.Port == b.Port && (a.Host == b.Host || a.Host == "" || b.Host == "") {
				found = append(found, contradiction{[]string{b.Key, a.Key},
					fmt.Sprintf("must not share an address and port with %s, got %s", a.Key, net.JoinHostPort(b.Host, b.Port))})
			}
		}
	}
	return found
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

// doubts returns warnings about values that are valid, but seldom intended. Each begins with its key.
func doubts(c Config) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.Cluster.TagSlots {
		add("cluster.slots: not set, so a node takes the slots from the tags %s of the volumes when it starts, and only "+
			"then sees whether they agree", c.Volume.EBS.For(c.Cluster.Name).SlotTag)
	} else if n := len(c.Cluster.Slots); n%2 == 0 {
		add("cluster.slots: %d members survive the loss of %d, no more than %d members do", n, n/2-1, n-1)
	}
	return slices.Concat(all, gossipDoubts(c), peerURLDoubts(c), tlsDoubts(c), backupDoubts(c), upkeepDoubts(c),
		authDoubts(c))
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
