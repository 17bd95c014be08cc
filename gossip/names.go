package gossip

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// canary is a name of our zone that only our resolver knows; Check asks for it. No slot may have it.
const canary = "holdfast-check"

// canaryAddress is from TEST-NET-1 (RFC 5737), which nobody has.
var canaryAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// names is an immutable table of the names we answer for.
type names struct {
	zone      string // lower case, no dot at the end
	hosts     string // pattern of more names, lower case; "" for none
	addresses map[string][]netip.Addr
	slots     map[string][]string // full names by the reverse name of their address, for PTR
}

func newNames(zone, hosts string, table map[string][]netip.Addr) *names {
	n := &names{
		zone:      zone,
		hosts:     hosts,
		addresses: map[string][]netip.Addr{},
		slots:     map[string][]string{},
	}
	for _, slot := range slices.Sorted(maps.Keys(table)) {
		for _, name := range n.of(strings.ToLower(slot)) {
			n.add(name, table[slot])
		}
	}
	n.addresses[canary+"."+zone] = []netip.Addr{canaryAddress}
	return n
}

// of returns the names of a slot.
func (n *names) of(slot string) []string {
	all := []string{slot + "." + n.zone}
	if host := strings.ReplaceAll(n.hosts, slotMark, slot); host != "" && host != all[0] {
		all = append(all, host)
	}
	return all
}

func (n *names) add(name string, addresses []netip.Addr) {
	n.addresses[name] = []netip.Addr{} // known, though perhaps nowhere
	for _, ip := range addresses {
		ip = ip.Unmap().WithZone("")
		if !ip.IsValid() || slices.Contains(n.addresses[name], ip) {
			continue
		}
		n.addresses[name] = append(n.addresses[name], ip)
		if reverse, err := dns.ReverseAddr(ip.String()); err == nil {
			n.slots[reverse] = append(n.slots[reverse], name)
		}
	}
}

// slotMark stands for the slot in a pattern.
const slotMark = "{slot}"

// ours reports whether a lower-case name without a final dot lies in our zone or fits the pattern, or is what
// becomes of such a name when a resolver appends one of its search domains. Nobody else may see or answer those.
func (n *names) ours(name string) bool {
	return strings.Contains("."+name+".", "."+n.zone+".") || n.fits(name)
}

// fits reports whether a name matches the pattern, for any slot, or does without some of its last labels.
func (n *names) fits(name string) bool {
	for i := len(name); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		if inPattern(n.hosts, name[:i]) {
			return true
		}
	}
	return false
}

// elsewhere reports whether a question is for the address of a slot of which none is known. What a search domain makes
// of such a name is not.
func (n *names) elsewhere(q dns.Question) bool {
	name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
	return q.Qclass == dns.ClassINET && len(n.addresses[name]) == 0 &&
		(inPattern(slotMark+"."+n.zone, name) || inPattern(n.hosts, name))
}

// inPattern reports whether a name is exactly that of some slot.
func inPattern(pattern, name string) bool {
	before, after, ok := strings.Cut(pattern, slotMark)
	rest, begins := strings.CutPrefix(name, before)
	slot, ends := strings.CutSuffix(rest, after)
	return ok && begins && ends && slot != "" && !strings.Contains(slot, ".")
}

// answer fills in the local answer to the question of a reply. It is false if the question is for someone else.
func (n *names) answer(reply *dns.Msg) bool {
	q := reply.Question[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
	// With TTL 0: an address is good for one dial.
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET}
	slots := n.slots[name+"."]
	switch {
	case q.Qclass != dns.ClassINET:
		return false
	case q.Qtype == dns.TypePTR && slots != nil:
		for _, slot := range slots {
			reply.Answer = append(reply.Answer, &dns.PTR{Hdr: header, Ptr: slot + "."})
		}
		return true
	case !n.ours(name):
		return false
	}
	addresses, known := n.addresses[name]
	if !known {
		reply.Rcode = dns.RcodeNameError
	}
	for _, ip := range addresses {
		switch {
		case q.Qtype == dns.TypeA && ip.Is4():
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: ip.AsSlice()})
		case q.Qtype == dns.TypeAAAA && ip.Is6():
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: ip.AsSlice()})
		}
	}
	return true
}
