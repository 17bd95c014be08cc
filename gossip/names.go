package gossip

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"holdfast/gossip/discover"
)

// canary is a name of our zone that only our resolver knows; Check asks for it. No slot may have it.
const canary = "holdfast-check"

// canaryAddress is from TEST-NET-1 (RFC 5737), which nobody has.
var canaryAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// names is an immutable table of the names we answer for, in lower case.
type names struct {
	discover.Names
	addresses map[string][]netip.Addr
	records   discover.Records
}

func newNames(of discover.Names, table map[string][]netip.Addr) *names {
	n := &names{Names: of, addresses: map[string][]netip.Addr{}, records: discover.Records{}}
	for _, slot := range slices.Sorted(maps.Keys(table)) {
		for _, name := range n.Of(strings.ToLower(slot)) {
			n.add(name, table[slot])
		}
	}
	n.add(canary+"."+n.Zone, []netip.Addr{canaryAddress})
	return n
}

// add takes in a name with its addresses, perhaps none. Their TTL is 0: an address is good for one dial.
func (n *names) add(name string, addresses []netip.Addr) {
	n.addresses[name] = []netip.Addr{}
	n.records.Add(name)
	for _, ip := range addresses {
		ip = ip.Unmap().WithZone("")
		if !ip.IsValid() || slices.Contains(n.addresses[name], ip) {
			continue
		}
		n.addresses[name] = append(n.addresses[name], ip)
		n.records.Add(name, discover.Address(ip, 0))
		if reverse, err := dns.ReverseAddr(ip.String()); err == nil {
			n.records.Add(reverse, &dns.PTR{Hdr: dns.RR_Header{Rrtype: dns.TypePTR}, Ptr: name + "."})
		}
	}
}

// ours reports whether a lower-case name without a final dot lies in our zone or fits the pattern, or is what
// becomes of such a name when a resolver appends one of its search domains. Nobody else may see or answer those.
func (n *names) ours(name string) bool {
	return strings.Contains("."+name+".", "."+n.Zone+".") || n.fits(name)
}

// fits reports whether a name matches the pattern, for any slot, or does without some of its last labels.
func (n *names) fits(name string) bool {
	for i := len(name); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		if inPattern(n.Hosts, name[:i]) {
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
		(inPattern(discover.SlotMark+"."+n.Zone, name) || inPattern(n.Hosts, name))
}

// inPattern reports whether a name is exactly that of some slot.
func inPattern(pattern, name string) bool {
	before, after, ok := strings.Cut(pattern, discover.SlotMark)
	rest, begins := strings.CutPrefix(name, before)
	slot, ends := strings.CutSuffix(rest, after)
	return ok && begins && ends && slot != "" && !strings.Contains(slot, ".")
}

// answer fills in the local answer to the question of a reply. It is false if the question is for someone else.
func (n *names) answer(reply *dns.Msg) bool {
	q := reply.Question[0]
	found, known := n.records.Find(q)
	ours := n.ours(strings.TrimSuffix(strings.ToLower(q.Name), "."))
	if q.Qclass != dns.ClassINET || !ours && (q.Qtype != dns.TypePTR || !known) {
		return false
	}
	if reply.Answer = found; !known {
		reply.Rcode = dns.RcodeNameError
	}
	return true
}
