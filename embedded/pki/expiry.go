package pki

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Expiry is when one certificate expires.
type Expiry struct {
	Name     string // such as "peer", "server", "peers-ca 1a2b3c4d"; unique
	NotAfter time.Time
	File     string // its file, if any
}

// An expiry is near in the last tenth of the life, and at most this long before the end.
const (
	nearLeaf = 7 * 24 * time.Hour  // for leaves, which are renewed automatically at two thirds
	nearGift = 30 * 24 * time.Hour // for what somebody must renew: authorities and the operator's certificates
)

// ending is a certificate whose expiry is tracked.
type ending struct {
	Expiry
	from time.Time
	ours bool // a leaf that we issue
	gone bool // an authority with a successor whose leaf we no longer have, so that its expiry does not matter
}

func (e ending) near(now time.Time) bool {
	limit := nearGift
	if e.ours {
		limit = nearLeaf
	}
	return e.NotAfter.Sub(now) < min(limit, e.NotAfter.Sub(e.from)/10)
}

// problem returns a sentence for an operator, "" if all is well.
func (e ending) problem(now time.Time) string {
	what, todo := "certificate "+e.Name, "renew it"
	if e.ours {
		todo = "it should have been renewed at two thirds of its life"
	}
	if e.File != "" {
		what += " (" + e.File + ")"
	}
	end := e.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case e.gone:
	case !now.Before(e.NotAfter):
		return fmt.Sprintf("%s expired at %s: %s", what, end, todo)
	case now.Before(e.from):
		return fmt.Sprintf("%s is valid from %s only, and it is %s here: look at the clock", what,
			e.from.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case e.near(now):
		return fmt.Sprintf("%s expires at %s, in %s: %s", what, end, e.NotAfter.Sub(now).Round(time.Second), todo)
	}
	return ""
}

// endings returns all tracked certificates, the first to expire first.
func (h state) endings(files Files) []ending {
	var all []ending
	add := func(e ending) {
		if !slices.ContainsFunc(all, func(a ending) bool { return a.Name == e.Name }) {
			all = append(all, e)
		}
	}
	var known Authorities
	if h.known != nil {
		known = *h.known
	}
	for _, side := range []struct {
		name, file  string
		leaf        *leaf
		trusted     []*x509.Certificate
		trustedFile string
		Authority
	}{
		{serverLeaf, files.Server, h.server, h.clients, files.ClientsCA, known.Clients},
		{peerLeaf, files.Peer, h.peer, h.trusted, files.PeersCA, known.Peers},
	} {
		if side.leaf != nil {
			c := side.leaf.cert
			add(ending{Expiry: Expiry{side.name, c.NotAfter, side.file}, from: c.NotBefore, ours: true})
		}
		name := filepath.Base(strings.TrimSuffix(side.trustedFile, ".crt"))
		for _, c := range side.trusted {
			gone := side.Primary != nil && !side.Primary.Equal(c) && side.leaf != nil &&
				side.leaf.issuer == Fingerprint(side.Primary)
			add(ending{Expiry: Expiry{name + " " + Fingerprint(c)[:8], c.NotAfter, side.trustedFile}, from: c.NotBefore,
				gone: gone})
		}
	}
	for _, w := range h.watched {
		for i, c := range w.certs {
			name := w.Name
			if i > 0 {
				name = fmt.Sprintf("%s %d", w.Name, i+1)
			}
			add(ending{Expiry: Expiry{name, c.NotAfter, w.Path}, from: c.NotBefore})
		}
	}
	slices.SortStableFunc(all, func(a, b ending) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Expiries returns when each certificate of this node expires, including its authorities, the first to expire first.
func (k *Keeper) Expiries() []Expiry {
	var all []Expiry
	for _, e := range k.now().endings(k.cfg.Files()) {
		all = append(all, e.Expiry)
	}
	return all
}

// Problems returns what is wrong, in sentences for an operator: what expires soon, and what could not be renewed and
// why. The expiry of an operator's own files is not among them, because package health judges those. They contain no
// secret.
func (k *Keeper) Problems() []string {
	have, now := k.now(), time.Now()
	var all []string
	if have.failing != nil {
		all = append(all, fmt.Sprintf("certificates could not be kept: %v", have.failing))
	}
	for _, w := range have.watched {
		if w.err != nil {
			all = append(all, fmt.Sprintf("certificate %s could not be read: %v", w.Name, w.err))
		}
	}
	have.watched = nil
	for _, e := range have.endings(k.cfg.Files()) {
		if p := e.problem(now); p != "" {
			all = append(all, p)
		}
	}
	return all
}
