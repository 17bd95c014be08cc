package gossip

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// DefaultPort is the port on which nodes gossip unless the config says otherwise. It is memberlist's own default.
const DefaultPort = 7946

// Config says where to listen, which nodes to ask first, and with which keys. The keys of the configuration file are
// those of the tags, below "gossip".
type Config struct {
	// Listen is the IP address and port. Port 0 takes a free one. An unspecified address
	// (0.0.0.0) listens everywhere and tells the others the node's own address. Empty means: the
	// caller fills in the node's address and DefaultPort.
	Listen string `mapstructure:"listen"`
	// Seeds are hosts or host:port of nodes to ask for the rest; the port of Listen stands in for a
	// missing one. Naming ourselves, or nodes that are not there yet, is fine.
	Seeds []string `mapstructure:"seeds"`
	// SeedsFile holds more seeds, one per line, # begins a comment. It is read again at every attempt.
	SeedsFile string `mapstructure:"seeds-file"`
	// KeyFile holds keys in base64 (16, 24 or 32 bytes), one per line, # begins a comment. A node shows the
	// certificate that the first one makes, and accepts those of each. Only its owner may read it, and a change is taken
	// over. Empty means no protection. With Mesh.UseTLS it is not used.
	KeyFile string `mapstructure:"key-file"`
	// ObserverFile holds what an observer shows and trusts where nodes have certificates: its certificate, its key and
	// the peers' authorities, as PEM. A node does not use it, nor does this package read it.
	ObserverFile string `mapstructure:"observer-file"`
	// ForgetAfter is how long a lost node is remembered; 0 means until it is forgotten by command. See Mesh.Settle.
	ForgetAfter time.Duration `mapstructure:"forget-after"`
}

// Default returns the configuration of a node without seeds that gossips in the clear. A day is longer than a machine
// takes to come back, or an operator to look at one that does not, and short enough that a lost node does not puzzle
// anyone a week later.
func Default() Config { return Config{ForgetAfter: 24 * time.Hour} }

// Validate reports every wrong key at once. It touches neither files nor network.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	if c.Listen != "" {
		if at, err := netip.ParseAddrPort(c.Listen); err != nil || at.Addr().Zone() != "" {
			wrong("gossip.listen", "must be host:port with an IP address without zone, got %q", c.Listen)
		}
	}
	for _, s := range c.Seeds {
		if _, _, err := splitSeed(s, DefaultPort); err != nil {
			wrong("gossip.seeds", "must be hosts or host:port, got %q", s)
		}
	}
	if d := c.ForgetAfter; d != 0 && (d < minForgetAfter || d > maxForgetAfter) {
		wrong("gossip.forget-after", "must be 10m–365d, or 0s for never, got %s", d)
	}
}

// splitSeed takes "host", "host:port", "::1" and "[::1]:port" apart.
func splitSeed(seed string, port uint16) (string, uint16, error) {
	if ip, err := netip.ParseAddr(seed); err == nil {
		return ip.String(), port, nil
	}
	host, text, err := net.SplitHostPort(seed)
	if err != nil {
		host, text, err = net.SplitHostPort(fmt.Sprintf("%s:%d", seed, port))
	}
	n, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || n == 0 || host == "" || strings.ContainsAny(host, " \t/#") {
		return "", 0, fmt.Errorf("read seed %q: it must be a host or host:port, with a port of 1–65535", seed)
	}
	return host, uint16(n), nil
}

// lines returns what a human wrote into a list file: no comments, no blanks.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
