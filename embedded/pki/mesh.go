package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// meshLeaf is the leaf that a process presents in the gossip. It is issued before there is a slot, has no member's
// name, and is in no file: a new process gets another one.
const meshLeaf = "gossip"

// MeshName is the DNS name in a node's leaf for the gossip. No slot has such a name, so the leaf is useless at a
// member's port.
func MeshName(zone string) string { return "node.gossip." + zone }

// WatchName is the DNS name in an observer's certificate. It is no slot's name either.
func WatchName(zone string) string { return "observer.gossip." + zone }

// settleTime is how long a new authority is only trusted before it signs leaves for the gossip. All nodes look for it
// once a minute, and more often if leaves are short-lived.
func settleTime(life time.Duration) time.Duration { return min(2*time.Minute, life/10) }

func meshProfile(id Identity) profile {
	if id.Observer {
		return Observer.profile(id.Zone, id.Node)
	}
	return profile{name: meshLeaf, commonName: id.Node, dns: []string{MeshName(id.Zone)}, usages: bothUsages}
}

// issueMesh issues the leaf for the gossip if there is none, if it is due, or if another authority must sign.
func (k *Keeper) issueMesh(have *state, now time.Time) error {
	if have.known == nil {
		return nil
	}
	known, seen := have.known.Peers, map[string]time.Time{}
	for _, c := range known.Bundle {
		name := Fingerprint(c)
		if seen[name] = have.seen[name]; have.seen == nil {
			seen[name] = now.Add(-settleTime(k.cfg.LeafLife))
		} else if seen[name].IsZero() {
			seen[name] = now
		}
	}
	have.seen = seen
	p := meshProfile(k.id)
	s := situation{Life: k.cfg.LeafLife, Peers: signings(known), Stances: have.stances}
	name := s.mesh(now, have.mesh.held(p), seen)
	if name == "" {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	l, err := known.issue(p, name, key, k.cfg.LeafLife, now)
	if err == nil {
		have.mesh = l
	}
	return err
}

// mesh returns the authority that must issue the leaf for the gossip, "" to keep the present one. Unlike a member, the
// gossip trusts a new authority as soon as it is known. So the authority signs once all members trust it and it has
// been known for settleTime.
func (s situation) mesh(now time.Time, h *held, seen map[string]time.Time) string {
	if len(s.Peers) == 0 {
		return ""
	}
	by := ""
	for _, p := range s.Peers {
		if now.Before(p.Until) && s.trustedByAll(p.Name) && now.Sub(seen[p.Name]) >= settleTime(s.Life) {
			by = p.Name
			break
		}
	}
	holds := h.usable(now) && slices.ContainsFunc(s.Peers, func(p signing) bool { return p.Name == h.Issuer })
	switch {
	case by == "" && holds:
		return ""
	case by == "":
		return s.Peers[0].Name
	case holds && h.Issuer == by && !h.due(now):
		return ""
	}
	return by
}

// MeshCertificate returns what this process presents in the gossip. It fails until the authorities are known.
func (k *Keeper) MeshCertificate() (*tls.Certificate, error) {
	have := k.now()
	if have.mesh == nil {
		return nil, errors.Join(errors.New("the peers' authority is not known here yet"), have.failing)
	}
	return &have.mesh.Certificate, nil
}

// MeshAuthorities returns the authorities that the gossip accepts: the current peers' authorities, and those whose
// leaves members may still present.
func (k *Keeper) MeshAuthorities() (*x509.CertPool, error) {
	have := k.now()
	if have.known == nil {
		return nil, errors.New("the peers' authority is not known here yet")
	}
	return Pool(slices.Concat(have.known.Peers.Bundle, have.trusted)...), nil
}
