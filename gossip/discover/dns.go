package discover

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	ttl = 5 // seconds: a member that moved is found again within that

	largest = 1232 // bytes by UDP that pass every network unfragmented (dnsflagday.net/2020)
)

// Zone is an immutable answer to every question about a cluster's names. Answering asks nobody and never fails.
type Zone struct {
	origin  string // lower case, with a dot at the end
	names   Names
	known   bool // else nobody knows, and the answer is SERVFAIL: a name that is not known yet does exist
	entries []Entry
	serial  uint32
}

// newZone makes the zone <cluster>.<domain> of entries. With no entries all its names are unknown. The members' names
// outside of the zone, if they have any, are answered like zones of one name. The serial is for anyone who compares the
// SOA records of two answers.
func newZone(names Names, entries []Entry, serial uint32) *Zone {
	return &Zone{origin: dns.CanonicalName(names.Zone), names: names, known: len(entries) > 0, entries: entries,
		serial: serial}
}

// Answer answers a query, and leaves out what does not fit the transport: the asker of a truncated answer comes again
// by TCP.
func (z *Zone) Answer(query *dns.Msg, tcp bool) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	size := dns.MinMsgSize
	opt := query.IsEdns0()
	if opt != nil {
		m.SetEdns0(largest, false)
		size = min(max(int(opt.UDPSize()), dns.MinMsgSize), largest)
	}
	if tcp {
		size = dns.MaxMsgSize
	}
	switch {
	case query.Opcode != dns.OpcodeQuery:
		m.Rcode = dns.RcodeNotImplemented
	case len(query.Question) != 1: // the library lets a header pass that promises one
		m.Rcode = dns.RcodeFormatError
	case opt != nil && opt.Version() != 0:
		m.Rcode = dns.RcodeBadVers
	default:
		z.resolve(m, query.Question[0])
	}
	m.Truncate(size)
	return m
}

// resolve fills in the answer to q.
func (z *Zone) resolve(m *dns.Msg, q dns.Question) {
	e, outside := z.outside(q.Name)
	if !outside && !dns.IsSubDomain(z.origin, q.Name) || q.Qclass != dns.ClassINET || q.Qtype == dns.TypeAXFR ||
		q.Qtype == dns.TypeIXFR {
		m.Rcode = dns.RcodeRefused
		return
	}
	if outside {
		m.Authoritative = true
		if m.Answer = address(q.Name, e.Address, q.Qtype); len(m.Answer) == 0 {
			m.Ns = append(m.Ns, z.soa(q.Name))
		}
		return
	}
	if !z.known {
		m.Rcode = dns.RcodeServerFailure
		return
	}
	m.Authoritative = true
	name := strings.TrimSuffix(strings.TrimSuffix(dns.CanonicalName(q.Name), z.origin), ".")
	if !z.answer(m, name, q) {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		m.Ns = append(m.Ns, z.soa(z.origin))
	}
}

// outside returns the member of a name that is not in the zone.
func (z *Zone) outside(name string) (Entry, bool) {
	for _, e := range z.entries {
		for _, other := range z.names.of(e.Slot)[1:] {
			if dns.CanonicalName(name) == dns.CanonicalName(other) {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// answer reports whether there is such a name; whether it has a record of the type is another question.
func (z *Zone) answer(m *dns.Msg, name string, q dns.Question) bool {
	if i := slices.IndexFunc(z.entries, func(e Entry) bool { return e.Slot == name }); i >= 0 {
		m.Answer = append(m.Answer, address(q.Name, z.entries[i].Address, q.Qtype)...)
		return true
	}
	switch name {
	case "":
		for _, e := range z.reachable() {
			m.Answer = append(m.Answer, address(q.Name, e.Address, q.Qtype)...)
		}
		if q.Qtype == dns.TypeSOA {
			m.Answer = append(m.Answer, z.soa(z.origin))
		}
		return true
	case "_tcp":
		return true // there are names below it
	case "_etcd-client._tcp", "_etcd-client-ssl._tcp", "_etcd-server._tcp", "_etcd-server-ssl._tcp":
		return z.services(m, name, q)
	}
	return false
}

// reachable are the members that are heard of; all when none is.
func (z *Zone) reachable() []Entry {
	live := slices.DeleteFunc(slices.Clone(z.entries), func(e Entry) bool { return !e.Live })
	if len(live) == 0 {
		return z.entries
	}
	return live
}

// services answers for the names that etcd's own clients and members look for (--discovery-srv).
func (z *Zone) services(m *dns.Msg, name string, q dns.Question) (exists bool) {
	wanted := "http"
	if strings.Contains(name, "-ssl.") {
		wanted = "https"
	}
	for _, e := range z.entries {
		urls := e.Clients
		if strings.HasPrefix(name, "_etcd-server") {
			urls = []string{e.PeerURL}
		}
		scheme, port := service(urls...)
		if scheme != wanted {
			continue
		}
		exists = true
		if q.Qtype == dns.TypeSRV || q.Qtype == dns.TypeANY {
			target := e.Slot + "." + z.origin
			m.Answer = append(m.Answer, &dns.SRV{Hdr: header(q.Name, dns.TypeSRV), Weight: 100, Port: port, Target: target})
			m.Extra = append(m.Extra, address(target, e.Address, dns.TypeANY)...)
		}
	}
	return exists
}

// address is the A or AAAA record of an address, if it is of the wanted type.
func address(name string, ip netip.Addr, wanted uint16) []dns.RR {
	ip = ip.Unmap()
	switch {
	case ip.Is4() && (wanted == dns.TypeA || wanted == dns.TypeANY):
		return []dns.RR{&dns.A{Hdr: header(name, dns.TypeA), A: net.IP(ip.AsSlice())}}
	case ip.Is6() && (wanted == dns.TypeAAAA || wanted == dns.TypeANY):
		return []dns.RR{&dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: net.IP(ip.AsSlice())}}
	}
	return nil
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// soa is the record of a zone that tells for how long a "there is none" holds (RFC 2308).
func (z *Zone) soa(of string) dns.RR {
	return &dns.SOA{Hdr: header(of, dns.TypeSOA), Ns: z.origin, Mbox: "hostmaster." + z.origin, Serial: z.serial,
		Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl}
}
