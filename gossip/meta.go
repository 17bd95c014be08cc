package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of Meta's texts, in bytes. Together they stay far below memberlist's 512 (MetaMaxSize).
const (
	maxNode    = 128
	maxVersion = 128
)

// Meta is what a node says of itself for the life of its process.
type Meta struct {
	// Node is node.name: 1 to 128 bytes of UTF-8 without "#".
	Node string
	// Boot is the process's start, in nanoseconds since 1970. It tells two processes with one Node apart;
	// doc.go says which of them counts.
	Boot uint64
	// Address is where the node's services can be reached, without zone and not IPv4-in-IPv6.
	Address netip.Addr
	// Version is the holdfast build, at most 128 bytes.
	Version string
}

// checkNode refuses what is no node's name. "#" separates it from the boot in memberlist's name.
func checkNode(name string) error {
	if name == "" || len(name) > maxNode || !utf8.ValidString(name) || strings.Contains(name, "#") {
		return fmt.Errorf("node name must be 1–%d bytes of UTF-8 without #, got %.200q", maxNode, name)
	}
	return nil
}

func (m Meta) check() error {
	errs := []error{checkNode(m.Node)}
	if m.Boot == 0 {
		errs = append(errs, errors.New("boot must be above 0, got 0"))
	}
	if !m.Address.IsValid() || m.Address.Is4In6() || m.Address.Zone() != "" {
		errs = append(errs, fmt.Errorf("address must be a plain IP address, got %q", m.Address))
	}
	if len(m.Version) > maxVersion || !utf8.ValidString(m.Version) {
		errs = append(errs, fmt.Errorf("version must be at most %d bytes of UTF-8, got %q", maxVersion, m.Version))
	}
	return errors.Join(errs...)
}

// process names the process to memberlist. A restarted process is another memberlist node, so none of
// memberlist's rules about a name that comes back (conflict, reclaim, incarnation) can hold it up.
func (m Meta) process() string {
	return m.Node + "#" + strconv.FormatUint(m.Boot, 36)
}
