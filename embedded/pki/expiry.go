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

// Expiry is when one certificate ends.
type Expiry struct {
	Name     string // such as "peer", "server", "peers-ca 1a2b3c4d"; each once
	NotAfter time.Time
	File     string // where it lies, if anywhere
}

// When an end is near: at the last tenth of the life, and not earlier than this.
const (
	nearLeaf = 7 * 24 * time.Hour  // of what is renewed by itself, at two thirds
	nearGift = 30 * 24 * time.Hour // of what somebody has to renew: authorities and the operator's certificates
)

// ending is a certificate that matters.
type ending struct {
	Expiry
	from time.Time
	ours bool // a leaf that we issue
	gone bool // an authority that has a successor, and whose leaf we have no more: its end is nobody's worry
}

func (e ending) near(now time.Time) bool {
	limit := nearGift
	if e.ours {
		limit = nearLeaf
	}
	return e.NotAfter.Sub(now) < min(limit, e.NotAfter.Sub(e.from)/10)
}

// problem is a sentence for an operator, "" if all is well.
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

// endings are those of all certificates that matter here, the earliest first.
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

// Expiries are the ends of all certificates that matter to this node, its authorities included, the earliest first.
func (k *Keeper) Expiries() []Expiry {
	var all []Expiry
	for _, e := range k.now().endings(k.cfg.Files()) {
		all = append(all, e.Expiry)
	}
	return all
}

// Problems are what is wrong, in sentences for an operator: what expires soon, what could not be renewed and why. The
// end of an operator's file is not among them: health judges the files that the configuration names. They hold no
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
