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

// Expiries returns when each certificate of this node expires, including its authorities, the first to expire first. An
// authority that was dropped from the bundle has none.
func (k *Keeper) Expiries() []Expiry {
	h, files := k.now(), k.cfg.Files()
	var all []Expiry
	add := func(name string, c *x509.Certificate, file string) {
		if !slices.ContainsFunc(all, func(e Expiry) bool { return e.Name == name }) {
			all = append(all, Expiry{name, c.NotAfter, file})
		}
	}
	if h.server != nil {
		add(serverLeaf, h.server.cert, files.Server)
	}
	if h.peer != nil {
		add(peerLeaf, h.peer.cert, files.Peer)
	}
	for file, trusted := range map[string][]*x509.Certificate{files.ClientsCA: h.clients, files.PeersCA: h.trusted} {
		for _, c := range trusted {
			add(filepath.Base(strings.TrimSuffix(file, ".crt"))+" "+Fingerprint(c)[:8], c, file)
		}
	}
	for _, w := range h.watched {
		for i, c := range w.certs {
			name := w.Name
			if i > 0 {
				name = fmt.Sprintf("%s %d", w.Name, i+1)
			}
			add(name, c, w.Path)
		}
	}
	slices.SortStableFunc(all, func(a, b Expiry) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Problems returns what could not be read, issued or written and why, in sentences for an operator without a secret.
// What expires is not among them, because package health judges the files.
func (k *Keeper) Problems() (all []string) {
	have := k.now()
	if have.failing != nil {
		all = append(all, fmt.Sprintf("certificates could not be kept: %v", have.failing))
	}
	for _, w := range have.watched {
		if w.err != nil {
			all = append(all, fmt.Sprintf("certificate %s could not be read: %v", w.Name, w.err))
		}
	}
	return all
}
