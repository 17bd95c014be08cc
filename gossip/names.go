package gossip

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"
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
func (n *names) elsewhere(q dnsmessage.Question) bool {
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	return q.Class == dnsmessage.ClassINET && len(n.addresses[name]) == 0 &&
		(inPattern(slotMark+"."+n.zone, name) || inPattern(n.hosts, name))
}

// inPattern reports whether a name is exactly that of some slot.
func inPattern(pattern, name string) bool {
	before, after, ok := strings.Cut(pattern, slotMark)
	rest, begins := strings.CutPrefix(name, before)
	slot, ends := strings.CutSuffix(rest, after)
	return ok && begins && ends && slot != "" && !strings.Contains(slot, ".")
}

// reply is the local answer to a question. It is false if the question is for someone else.
func (n *names) reply(h dnsmessage.Header, q dnsmessage.Question) (dnsmessage.Message, bool) {
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	answer := dnsmessage.Message{
		// Without these two bits Go takes an empty answer for a lame referral and asks the next server.
		Header: dnsmessage.Header{
			ID: h.ID, Response: true, Authoritative: true,
			RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{q},
	}
	if q.Class != dnsmessage.ClassINET {
		return answer, false
	}
	if slots := n.slots[name+"."]; q.Type == dnsmessage.TypePTR && slots != nil {
		for _, slot := range slots {
			answer.Answers = append(answer.Answers, pointer(q, slot))
		}
		return answer, true
	}
	if !n.ours(name) {
		return answer, false
	}
	addresses, known := n.addresses[name]
	if !known {
		answer.RCode = dnsmessage.RCodeNameError
	}
	for _, ip := range addresses {
		switch {
		case q.Type == dnsmessage.TypeA && ip.Is4():
			answer.Answers = append(answer.Answers, resource(q, &dnsmessage.AResource{A: ip.As4()}))
		case q.Type == dnsmessage.TypeAAAA && ip.Is6():
			answer.Answers = append(answer.Answers, resource(q, &dnsmessage.AAAAResource{AAAA: ip.As16()}))
		}
	}
	return answer, true
}

func pointer(q dnsmessage.Question, name string) dnsmessage.Resource {
	target, _ := dnsmessage.NewName(name + ".") // too long a name becomes the root; no one can ask for it either
	return resource(q, &dnsmessage.PTRResource{PTR: target})
}

// resource has TTL 0: an address is good for one dial.
func resource(q dnsmessage.Question, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET},
		Body:   body,
	}
}
