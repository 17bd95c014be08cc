package pki

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// These are the values of Config.Mode.
const (
	ModeFiles = "files" // the operator's certificates, under etcd's own keys
	ModeCA    = "ca"    // the operator's authorities, our leaves
	ModeAuto  = "auto"  // our authorities, shared through the backup store, and our leaves
	ModeOff   = "off"   // no TLS
)

// modes has all values of Config.Mode.
var modes = []string{ModeFiles, ModeCA, ModeAuto, ModeOff}

// Config is the `tls:` section.
type Config struct {
	// Mode is one of modes; empty means that cmd derives it.
	Mode string `mapstructure:"mode"`
	// Insecure allows ModeOff on addresses that other machines can reach.
	Insecure bool `mapstructure:"insecure"`
	// ClientsOnly leaves the members and the gossip without TLS in ModeCA, for a cluster that was founded that way.
	ClientsOnly bool `mapstructure:"clients-only"`
	// PlainClients makes etcd also serve clients without TLS, at the same addresses.
	PlainClients bool `mapstructure:"plain-clients"`
	// FromHTTP makes the members also serve each other over http, at another port, until all have https URLs.
	FromHTTP bool `mapstructure:"from-http"`
	// CADir is the directory with the authorities of ModeCA, named as kops does: etcd-clients-ca.crt and .key,
	// etcd-peers-ca.crt and .key.
	CADir string `mapstructure:"ca-dir"`
	// These are the PEM files of the authorities; cmd derives them from CADir. A certificate file may be a bundle; the
	// certificate that matches the key signs.
	ClientCAFile    string `mapstructure:"client-ca-file"`
	ClientCAKeyFile string `mapstructure:"client-ca-key-file"`
	PeerCAFile      string `mapstructure:"peer-ca-file"`
	PeerCAKeyFile   string `mapstructure:"peer-ca-key-file"`
	// Dir is the directory for issued certificates, with mode 0700. It belongs to this machine, and is never on a
	// volume that moves.
	Dir string `mapstructure:"dir"`
	// OperatorFile holds a Paper. Commands sign with it on a machine that has neither the key of the peers' authority
	// nor a member's certificate. A node does not use it.
	OperatorFile string `mapstructure:"operator-file"`
	// Names are additional host names and IP addresses for the server's certificate.
	Names []string `mapstructure:"names"`
	// LeafLife is how long an issued certificate is valid, at least minLife. It is renewed at two thirds of that.
	LeafLife time.Duration `mapstructure:"leaf-life"`
	// CALife is how long an authority of ModeAuto is valid, at least twice LeafLife.
	CALife time.Duration `mapstructure:"ca-life"`
}

// hostName matches a DNS name as in certificates; the first label may be a star.
var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*)(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*$`)

// minLife is for tests of many renewals; it is far too short for real use.
const minLife = 3 * time.Second

// Default returns the configuration of a node without settings.
func Default() Config {
	return Config{LeafLife: 90 * 24 * time.Hour, CALife: 10 * 365 * 24 * time.Hour}
}

// Validate reports every value out of range. It reads no file.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	if c.Mode != "" && !slices.Contains(modes, c.Mode) {
		wrong("tls.mode", "must be one of %s, got %q", strings.Join(modes, ", "), c.Mode)
	}
	for _, name := range c.Names {
		if net.ParseIP(name) == nil && !hostName.MatchString(name) {
			wrong("tls.names", "must be host names or IP addresses, without a port, got %q", name)
		}
	}
	if c.LeafLife < minLife {
		wrong("tls.leaf-life", "must be at least %s, got %s", minLife, c.LeafLife)
	}
	if c.CALife < 2*c.LeafLife {
		wrong("tls.ca-life", "must be at least twice tls.leaf-life (%s), got %s", c.LeafLife, c.CALife)
	}
}

// IssuesPeers reports whether members and gossip use certificates that this node issues.
func (c Config) IssuesPeers() bool { return c.Issues() && !c.ClientsOnly }

// Issues reports whether this node issues its leaves.
func (c Config) Issues() bool { return c.Mode == ModeCA || c.Mode == ModeAuto }

// Files are the files that a keeper writes and etcd reads.
type Files struct {
	Server    string // certificate and key in one file, which is both etcd's cert-file and its key-file
	Peer      string // the same for peers
	ClientsCA string // trusted-ca-file for clients
	PeersCA   string // and for peers
}

// Files returns the paths below Dir.
func (c Config) Files() Files {
	return Files{
		Server: c.leafFile(serverLeaf), Peer: c.leafFile(peerLeaf),
		ClientsCA: filepath.Join(c.Dir, "clients-ca.crt"), PeersCA: filepath.Join(c.Dir, "peers-ca.crt"),
	}
}

func (c Config) leafFile(name string) string { return filepath.Join(c.Dir, name+".pem") }
