package discover

import (
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// SlotMark stands for the slot in a pattern of host names.
const SlotMark = "{slot}"

// Names are the members' host names.
type Names struct {
	Zone  string // <cluster>.<domain>: each member is <slot>.<cluster>.<domain>
	Hosts string // pattern with SlotMark of the host names in the members' URLs; "" where they are those of Zone
}

// Of returns the names of a slot.
func (n Names) Of(slot string) []string {
	all := []string{slot + "." + n.Zone}
	if host := strings.ReplaceAll(n.Hosts, SlotMark, slot); host != "" && host != all[0] {
		all = append(all, host)
	}
	return all
}

// Records are what is answered, by canonical name. A name may be there without records.
type Records map[string][]dns.RR

// Add adds records of a name.
func (r Records) Add(name string, records ...dns.RR) {
	name = dns.CanonicalName(name)
	for _, rr := range records {
		rr.Header().Name, rr.Header().Class = name, dns.ClassINET
	}
	r[name] = append(r[name], records...)
}

// Find returns the records of the wanted type, under the name as it was asked, and whether there is such a name.
func (r Records) Find(q dns.Question) (found []dns.RR, exists bool) {
	all, exists := r[dns.CanonicalName(q.Name)]
	for _, rr := range all {
		if q.Qtype == rr.Header().Rrtype || q.Qtype == dns.TypeANY {
			rr = dns.Copy(rr)
			rr.Header().Name = q.Name
			found = append(found, rr)
		}
	}
	return found, exists
}

// Address is the A or AAAA record of an address.
func Address(ip netip.Addr, ttl uint32) dns.RR {
	ip = ip.Unmap()
	if ip.Is4() {
		return &dns.A{Hdr: dns.RR_Header{Rrtype: dns.TypeA, Ttl: ttl}, A: net.IP(ip.AsSlice())}
	}
	return &dns.AAAA{Hdr: dns.RR_Header{Rrtype: dns.TypeAAAA, Ttl: ttl}, AAAA: net.IP(ip.AsSlice())}
}
