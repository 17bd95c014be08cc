package discover

import (
	"slices"

	"github.com/miekg/dns"
)

const (
	ttl = 5 // seconds: a member that moved is found again within that

	largest = 1232 // bytes by UDP that pass every network unfragmented (dnsflagday.net/2020)
)

// Zone is an immutable answer to every question about a cluster's names. Answering asks nobody and never fails.
type Zone struct {
	origin  string // lower case, with a dot at the end
	known   bool   // else nobody knows, and the answer is SERVFAIL: a name that is not known yet does exist
	records Records
	serial  uint32
}

// newZone makes the zone <cluster>.<domain> of entries. With no entries all its names are unknown. The members' names
// outside of the zone, if they have any, are answered like zones of one name. The serial is for anyone who compares the
// SOA records of two answers.
func newZone(names Names, entries []Entry, serial uint32) *Zone {
	z := &Zone{origin: dns.CanonicalName(names.Zone), known: len(entries) > 0, records: Records{}, serial: serial}
	z.records.Add(z.origin, z.soa(z.origin))
	z.records.Add("_tcp." + z.origin) // there are names below it
	for _, e := range reachable(entries) {
		z.records.Add(z.origin, Address(e.Address, ttl))
	}
	for _, e := range entries {
		for _, name := range names.Of(e.Slot) {
			z.records.Add(name, Address(e.Address, ttl))
		}
		z.serve("_etcd-client", e, e.Clients...)
		z.serve("_etcd-server", e, e.PeerURL)
	}
	return z
}

// serve adds what etcd's own clients and members look for (--discovery-srv).
func (z *Zone) serve(name string, e Entry, urls ...string) {
	scheme, port := service(urls...)
	suffix, known := map[string]string{"http": "._tcp.", "https": "-ssl._tcp."}[scheme]
	if known {
		z.records.Add(name+suffix+z.origin, &dns.SRV{Hdr: dns.RR_Header{Rrtype: dns.TypeSRV, Ttl: ttl}, Weight: 100,
			Port: port, Target: e.Slot + "." + z.origin})
	}
}

// reachable are the members that are heard of; all when none is.
func reachable(entries []Entry) []Entry {
	live := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.Live })
	if len(live) == 0 {
		return entries
	}
	return live
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
	found, exists := z.records.Find(q)
	apex := z.origin
	if !dns.IsSubDomain(z.origin, q.Name) {
		apex = q.Name
	}
	switch {
	case apex == q.Name && !exists, q.Qclass != dns.ClassINET, q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR:
		m.Rcode = dns.RcodeRefused
		return
	case !z.known:
		m.Rcode = dns.RcodeServerFailure
		return
	case !exists:
		m.Rcode = dns.RcodeNameError
	}
	m.Authoritative, m.Answer = true, found
	for _, rr := range found {
		if srv, ok := rr.(*dns.SRV); ok {
			extra, _ := z.records.Find(dns.Question{Name: srv.Target, Qtype: dns.TypeANY})
			m.Extra = append(m.Extra, extra...)
		}
	}
	if len(found) == 0 {
		m.Ns = append(m.Ns, z.soa(apex))
	}
}

// soa is the record of a zone that tells for how long a "there is none" holds (RFC 2308).
func (z *Zone) soa(of string) dns.RR {
	header := dns.RR_Header{Name: of, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}
	return &dns.SOA{Hdr: header, Ns: z.origin, Mbox: "hostmaster." + z.origin, Serial: z.serial, Refresh: ttl, Retry: ttl,
		Expire: ttl, Minttl: ttl}
}
