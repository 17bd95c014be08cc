package pki

import (
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Clients records which client certificates the member was shown, and when last. Nothing else shows who still uses a
// certificate of an old authority. Its size is bounded, and it ends with the process. Its methods are safe for
// concurrent use.
type Clients struct {
	since time.Time

	mu   sync.RWMutex
	seen map[string]*shown // by the certificate's bytes
}

// Presented is a client certificate that the member was shown.
type Presented struct {
	Name        string // the common name
	Fingerprint string
	Authority   string // fingerprint of the trusted authority that has issued it
	NotAfter    time.Time
	Last        time.Time // of the last call with it; now while a stream is open
}

// shown is an entry of the table. Its last replaces Presented.Last.
type shown struct {
	Presented
	last    atomic.Int64 // nanoseconds since 1970
	streams atomic.Int32 // open streams
}

// maxShown bounds the table. A cluster has a handful of clients, but short-lived certificates come and go.
const maxShown = 1000

// NewClients returns an empty table.
func NewClients() *Clients { return &Clients{since: time.Now(), seen: map[string]*shown{}} }

// Since returns when the table began.
func (c *Clients) Since() time.Time { return c.since }

// See records a call with a certificate. chain begins with the certificate and ends with its authority. streams is the
// change in the number of open streams. See ignores the server's own certificate, which etcd's JSON gateway uses.
func (c *Clients) See(chain []*x509.Certificate, streams int) {
	leaf := chain[0]
	if leaf.Subject.CommonName == "" && slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		return
	}
	c.mu.RLock()
	s := c.seen[string(leaf.Raw)]
	c.mu.RUnlock()
	if s == nil {
		s = c.add(chain)
	}
	s.last.Store(time.Now().UnixNano())
	if streams != 0 {
		s.streams.Add(int32(streams)) //nolint:gosec // 1 or -1
	}
}

func (c *Clients) add(chain []*x509.Certificate) *shown {
	leaf, authority := chain[0], chain[len(chain)-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.seen[string(leaf.Raw)]; s != nil {
		return s
	}
	if len(c.seen) >= maxShown {
		c.forgetOldest()
	}
	s := &shown{Presented: Presented{Name: leaf.Subject.CommonName, Fingerprint: Fingerprint(leaf),
		Authority: Fingerprint(authority), NotAfter: leaf.NotAfter}}
	c.seen[string(leaf.Raw)] = s
	return s
}

// forgetOldest removes the entry that was seen longest ago.
func (c *Clients) forgetOldest() {
	oldest, first := "", int64(0)
	for raw, s := range c.seen {
		last := s.last.Load()
		if s.streams.Load() > 0 {
			last = time.Now().UnixNano()
		}
		if oldest == "" || last < first {
			oldest, first = raw, last
		}
	}
	delete(c.seen, oldest)
}

// Of returns the unexpired certificates that clients presented and that were issued by one of the authorities, given by
// fingerprint; by any authority if none is given. The one seen last comes first. Of several certificates with one name
// and authority, it returns only the one seen last.
func (c *Clients) Of(now time.Time, authorities ...string) []Presented {
	c.mu.RLock()
	defer c.mu.RUnlock()
	type holder struct{ name, authority string }
	latest := map[holder]Presented{}
	for _, s := range c.seen {
		p := s.Presented
		if len(authorities) > 0 && !slices.Contains(authorities, p.Authority) || !now.Before(p.NotAfter) {
			continue
		}
		p.Last = time.Unix(0, s.last.Load()).UTC()
		if s.streams.Load() > 0 {
			p.Last = now.UTC()
		}
		if h := (holder{p.Name, p.Authority}); p.Last.After(latest[h].Last) {
			latest[h] = p
		}
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b Presented) int { return b.Last.Compare(a.Last) })
}
