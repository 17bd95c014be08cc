package authorities

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// Current returns this node's current edition, nil if none is known. It does not read the store.
func (a *Keeper) Current() *Edition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.have
}

// Rotation returns the state of the open rotation, nil if none is open. It does not read the store.
func (a *Keeper) Rotation(v View, now time.Time) *health.RotationStatus {
	e := a.Current()
	if e == nil {
		return nil
	}
	s := e.Rotation(v, now)
	if s != nil {
		s.Watched = a.Clients.Since().UTC()
		s.Add(clientCertificates(a.Clients.Of(now, s.Old...))...)
	}
	return s
}

func clientCertificates(all []pki.Presented) []health.ClientCertificate {
	var out []health.ClientCertificate
	for _, p := range all {
		out = append(out, health.ClientCertificate(p))
	}
	return out
}

// Rotation returns the state of the rotation that an edition is part of, nil if it is in none.
func (e Edition) Rotation(v View, now time.Time) *health.RotationStatus {
	s := &health.RotationStatus{Phase: string(e.Phase), Cause: e.Cause, Since: e.Time,
		Authorities: []string{"clients", "peers"}}
	old, next := e.Clients.primary(), e.Clients.primary()
	switch e.Phase {
	case phaseIntroduced:
		next = e.Clients.other()
		s.Began, s.Hold, s.Until = e.Peers.Keys[1].Made, e.Hold, e.ends()
		s.Next = "the new authorities sign, and each node renews its certificates"
		s.Waits = e.waits(v, now)
	case phaseIssuing:
		old = e.Clients.other()
		s.Began, s.Until = e.Peers.Keys[0].Made, e.Peers.other().NotAfter
		s.Next = "members stop trusting the old peers' authority: each restarts once more, one at a time, the leader last"
		s.Waits = e.waits(v, now)
	default:
		retired := e.Clients.retired()
		if len(retired) == 0 {
			return nil
		}
		old = slices.MinFunc(retired, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		s.Phase, s.Authorities = health.RotationRetiring, []string{"clients"}
		s.Began, s.Until = e.Peers.Keys[0].Made, old.NotAfter
		s.Next = "servers refuse clients' certificates of the old authority, each member from its next restart on"
		s.Waits = "until clients have new certificates: then run `holdfast tls rotate-ca --drop-old`"
	}
	s.New = pki.Fingerprint(next)
	for _, c := range slices.Concat(e.Clients.retired(), []*x509.Certificate{old}) {
		if name := pki.Fingerprint(c); name != s.New && !slices.Contains(s.Old, name) {
			s.Old = append(s.Old, name)
		}
	}
	return s
}

// waits says what the next step of a rotation waits for.
func (e Edition) waits(v View, now time.Time) string {
	var all []string
	if now.Before(e.Hold) && now.Before(e.ends()) {
		all = append(all, fmt.Sprintf("until %s, so that clients get the new bundle (`holdfast tls bundle`); "+
			"`holdfast tls rotate-ca --now` ends that time", e.Hold.Format(time.RFC3339)))
	}
	if w := v.waiting(e, now); w != "" {
		all = append(all, w)
	}
	if v.Paused {
		all = append(all, "until `holdfast resume`")
	}
	if v.Leader && v.Clock != "" {
		all = append(all, v.Clock)
	}
	return cmp.Or(strings.Join(all, ", and "), "until the leader looks, within a minute")
}
