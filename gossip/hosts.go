package gossip

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// StaleLine is a line of the hosts file that gives one of our names an address which is not the slot's. Go reads that
// file before it asks us, so the members' connections go to the wrong place.
type StaleLine struct {
	File    string
	Number  int // of the line, from 1
	Name    string
	Address netip.Addr   // in the line
	Known   []netip.Addr // of the slot, as we know it
	Block   string       // the cluster whose etcd-manager wrote the line, "" if it is not in a block of its
}

// Stale returns the lines of the hosts file that contradict what is known of the slots. There are none where
// nsswitch.conf has lookups ask dns before files: then we are asked first.
func (r *Resolver) Stale() ([]StaleLine, error) {
	if r.dnsFirst() {
		return nil, nil
	}
	lines, err := r.ourLines()
	known := r.names.Load()
	var stale []StaleLine
	for _, l := range lines {
		l.Known = known.addresses[l.Name]
		// Several lines of a name count together; one of another family than all that are known says nothing of them.
		same := func(ip netip.Addr) bool { return ip.Is4() == l.Address.Is4() }
		if slices.ContainsFunc(l.Known, same) && !slices.Contains(l.Known, l.Address) {
			stale = append(stale, l)
		}
	}
	return stale, err
}

// ourLines reads the hosts file itself: the resolver caches it and looks up one name at a time. The address of a line
// without one is the zero one.
func (r *Resolver) ourLines() (ours []StaleLine, err error) {
	text, err := os.ReadFile(r.hostsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for our names in %s: %w", r.hostsFile, err)
	}
	known, number, block := r.names.Load(), 0, ""
	for line := range strings.Lines(string(text)) {
		number++
		block = inBlock(block, line)
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		for i, field := range fields {
			name := strings.TrimSuffix(strings.ToLower(field), ".")
			if _, is := known.addresses[name]; i > 0 && (is || strings.HasSuffix("."+name, "."+known.Zone)) {
				ip, _ := netip.ParseAddr(fields[0])
				ours = append(ours, StaleLine{File: r.hostsFile, Number: number, Name: name, Address: ip.Unmap(), Block: block})
			}
		}
	}
	return ours, nil
}

// etcd-manager's marks around its lines (its pkg/hosts).
const (
	blockBegins = "# Begin host entries managed by etcd-manager["
	blockEnds   = "# End host entries managed by "
)

// inBlock returns in which etcd-manager's block the lines are from this one on, "" for none.
func inBlock(block, line string) string {
	if rest, begins := strings.CutPrefix(line, blockBegins); begins {
		cluster, _, _ := strings.Cut(rest, "]")
		return cluster
	}
	if strings.HasPrefix(line, blockEnds) {
		return ""
	}
	return block
}

// dnsFirst reports whether nsswitch.conf has lookups ask dns before files.
func (r *Resolver) dnsFirst() bool {
	all := strings.Fields(r.sources())
	dns, files := slices.Index(all, "dns"), slices.Index(all, "files")
	return dns >= 0 && dns < files
}

// sources is the line of nsswitch.conf for host names, "" if there is none. Go looks only at "files" and "dns" in it
// (nsswitch.conf(5)), and asks DNS without it.
func (r *Resolver) sources() string {
	text, err := os.ReadFile(r.nsswitch)
	if err != nil {
		return ""
	}
	for _, line := range lines(string(text)) {
		if all, ok := strings.CutPrefix(line, "hosts:"); ok {
			return "hosts: " + all
		}
	}
	return ""
}
