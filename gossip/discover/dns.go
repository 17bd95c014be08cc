package discover

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	ttl = 5 // seconds: a member that moved is found again within that

	smallest = 512  // bytes in a UDP answer to one who does not say what it takes (RFC 1035)
	largest  = 1232 // bytes that pass every network unfragmented (dnsflagday.net/2020)
	// badVersion is the extended RCODE BADVERS, 16, without the four bits that stand in the header (RFC 6891).
	badVersion = 1 << 24
)

// Zone is an immutable answer to every question about a cluster's names. Answering asks nobody and never fails.
type Zone struct {
	origin  string // lower case, with a dot at the end
	known   bool   // else nobody knows, and the answer is SERVFAIL: a name that is not known yet does exist
	entries []Entry
	serial  uint32
}

// NewZone makes the zone <cluster>.<domain> of entries. With no entries all its names are unknown. The serial is for
// whoever compares the SOA records of two answers.
func NewZone(origin string, entries []Entry, serial uint32) *Zone {
	return &Zone{origin: strings.ToLower(strings.TrimSuffix(origin, ".")) + ".", known: len(entries) > 0, entries: entries, serial: serial}
}

// Answer answers a packet; false means that it deserves none. limit is what the transport carries, 0 for UDP, where the
// asker says it.
func (z *Zone) Answer(packet []byte, limit int) ([]byte, bool) {
	var p dnsmessage.Parser
	h, err := p.Start(packet)
	if err != nil || h.Response {
		return nil, false
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired}}
	questions, err := p.AllQuestions()
	switch {
	case h.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, max(limit, smallest))
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, max(limit, smallest))
	}
	reply.Questions = questions
	opt, err := option(&p)
	if err != nil {
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, max(limit, smallest))
	}
	size := smallest
	if opt != nil {
		size = min(max(int(opt.Class), smallest), largest)
	}
	if limit > 0 {
		size = limit
	}
	switch {
	case opt != nil && opt.TTL>>16&0xff != 0:
		reply.Additionals = []dnsmessage.Resource{pseudo(badVersion)}
		return pack(reply, size)
	default:
		z.resolve(&reply, questions[0])
	}
	if opt != nil {
		reply.Additionals = append(reply.Additionals, pseudo(0))
	}
	return pack(reply, size)
}

// option returns the header of the EDNS record of a query, nil when it has none.
func option(p *dnsmessage.Parser) (*dnsmessage.ResourceHeader, error) {
	if err := errors.Join(p.SkipAllAnswers(), p.SkipAllAuthorities()); err != nil {
		return nil, err
	}
	var found *dnsmessage.ResourceHeader
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Type == dnsmessage.TypeOPT {
			if found != nil {
				return nil, errors.New("two OPT records")
			}
			found = &h
		}
		if err := p.SkipAdditional(); err != nil {
			return nil, err
		}
	}
}

// pseudo is our EDNS record.
func pseudo(flags uint32) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: largest, TTL: flags},
		Body:   &dnsmessage.OPTResource{},
	}
}

// pack encodes m; what does not fit size is left out, and the asker told to come again by TCP.
func pack(m dnsmessage.Message, size int) ([]byte, bool) {
	b, err := m.Pack()
	if err == nil && len(b) > size {
		m.Truncated, m.Answers, m.Authorities = true, nil, nil
		m.Additionals = slices.DeleteFunc(m.Additionals, func(r dnsmessage.Resource) bool { return r.Header.Type != dnsmessage.TypeOPT })
		b, err = m.Pack()
	}
	return b, err == nil && len(b) <= size
}

// resolve fills in the answer to q.
func (z *Zone) resolve(m *dnsmessage.Message, q dnsmessage.Question) {
	name, ours := strings.CutSuffix("."+strings.ToLower(q.Name.String()), "."+z.origin)
	name = strings.TrimPrefix(name, ".")
	if !ours || q.Class != dnsmessage.ClassINET || q.Type == dnsmessage.TypeAXFR || q.Type == 251 { // 251 is IXFR
		m.RCode = dnsmessage.RCodeRefused
		return
	}
	if !z.known {
		m.RCode = dnsmessage.RCodeServerFailure
		return
	}
	m.Authoritative = true
	exists := z.answer(m, name, q)
	if !exists {
		m.RCode = dnsmessage.RCodeNameError
	}
	if len(m.Answers) == 0 {
		m.Authorities = append(m.Authorities, z.soa())
	}
}

// answer reports whether there is such a name; whether it has a record of the type is another question.
func (z *Zone) answer(m *dnsmessage.Message, name string, q dnsmessage.Question) bool {
	if i := slices.IndexFunc(z.entries, func(e Entry) bool { return e.Slot == name }); i >= 0 {
		m.Answers = append(m.Answers, address(q.Name, z.entries[i].Address, q.Type)...)
		return true
	}
	switch name {
	case "":
		for _, e := range z.reachable() {
			m.Answers = append(m.Answers, address(q.Name, e.Address, q.Type)...)
		}
		if q.Type == dnsmessage.TypeSOA {
			m.Answers = append(m.Answers, z.soa())
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
func (z *Zone) services(m *dnsmessage.Message, name string, q dnsmessage.Question) (exists bool) {
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
		target, err := dnsmessage.NewName(e.Slot + "." + z.origin)
		if scheme != wanted || err != nil {
			continue
		}
		exists = true
		if q.Type == dnsmessage.TypeSRV || q.Type == dnsmessage.TypeALL {
			m.Answers = append(m.Answers, record(q.Name, dnsmessage.TypeSRV, &dnsmessage.SRVResource{Weight: 100, Port: port, Target: target}))
			m.Additionals = append(m.Additionals, address(target, e.Address, dnsmessage.TypeALL)...)
		}
	}
	return exists
}

// address is the A or AAAA record of an address, if it is of the wanted type.
func address(name dnsmessage.Name, ip netip.Addr, wanted dnsmessage.Type) []dnsmessage.Resource {
	kind, body := dnsmessage.TypeAAAA, dnsmessage.ResourceBody(nil)
	if ip = ip.Unmap(); ip.Is4() {
		kind, body = dnsmessage.TypeA, &dnsmessage.AResource{A: ip.As4()}
	} else {
		body = &dnsmessage.AAAAResource{AAAA: ip.As16()}
	}
	if wanted != kind && wanted != dnsmessage.TypeALL {
		return nil
	}
	return []dnsmessage.Resource{record(name, kind, body)}
}

func record(name dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: ttl}, Body: body}
}

// soa is the record that tells for how long a "there is none" holds (RFC 2308).
func (z *Zone) soa() dnsmessage.Resource {
	origin, mailbox := dnsmessage.MustNewName("."), dnsmessage.MustNewName(".")
	if n, err := dnsmessage.NewName(z.origin); err == nil {
		origin = n
	}
	if n, err := dnsmessage.NewName("hostmaster." + z.origin); err == nil {
		mailbox = n
	}
	return record(origin, dnsmessage.TypeSOA, &dnsmessage.SOAResource{
		NS: origin, MBox: mailbox, Serial: z.serial, Refresh: ttl, Retry: ttl, Expire: ttl, MinTTL: ttl,
	})
}
