package authorities

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// restartTime is a little more than a member takes to restart when it is its turn.
const restartTime = 15 * time.Second

// Refuses says what an operator's step means for clients: which are refused, from when on, and which of those the nodes
// have seen. The step is allowed nevertheless.
func (a *Keeper) Refuses(v View, order Order, status health.ClusterStatus, issued []Client,
	now time.Time) []string {
	e := a.Current()
	switch {
	case e == nil:
		return nil
	case order.Now:
		return a.refusesNow(*e, v, status, now)
	case order.DropOld:
		return append(e.refusesOld(v, status, now, a.every()), e.issuedByOld(issued, now)...)
	}
	return nil
}

// refusesNow says what happens if new authorities sign although clients may not trust them yet.
func (a *Keeper) refusesNow(e Edition, v View, status health.ClusterStatus, now time.Time) []string {
	members := time.Duration(len(v.Members))
	first, last := now.Add(members*restartTime/3), now.Add(3*a.every()+members*restartTime)
	if e.Phase == phaseIntroduced && v.waiting(e, now) == "" {
		first, last = now, now.Add(a.every())
	}
	from := first.UTC().Format(time.RFC3339)
	all := []string{fmt.Sprintf("clients without the new bundle refuse the servers: from about %s on, "+
		"at every node by about %s. Open connections last until their member restarts, minutes later",
		from, last.UTC().Format(time.RFC3339))}
	if e.Phase == phaseIntroduced {
		all = append(all, fmt.Sprintf("kube-apiserver does not re-read --etcd-cafile: give it the new bundle "+
			"(`holdfast tls bundle`) and restart it before %s. It does re-read its client certificate", from))
	} else {
		all = append(all, "there is no new bundle to hand out yet. To give clients time, run `holdfast tls rotate-ca` "+
			"without --now first, hand out `holdfast tls bundle`, then run it with --now",
			"kube-apiserver does not re-read --etcd-cafile: it needs the new bundle and a restart. "+
				"It does re-read its client certificate")
	}
	old := e.Clients.primary()
	seen := health.RotationStatus{Old: []string{pki.Fingerprint(old)}, Watched: a.Clients.Since()}
	if r := status.Rotation; r != nil {
		seen = *r
	}
	seen.Add(clientCertificates(a.Clients.Of(now, seen.Old...))...)
	return append(all, fmt.Sprintf("clients' certificates of %s are still accepted, until %s or --drop-old",
		pki.Fingerprint(old), old.NotAfter.UTC().Format(time.RFC3339)), whom(seen, status, now))
}

// refusesOld says what happens if clients' certificates of old authorities are no longer accepted.
func (e Edition) refusesOld(v View, status health.ClusterStatus, now time.Time, every time.Duration) []string {
	last := now.Add(every + time.Duration(len(v.Members))*restartTime)
	all := []string{fmt.Sprintf("servers refuse clients' certificates of %s: each member from its next restart on, "+
		"one at a time, from now on, every one by about %s", strings.Join(pki.Fingerprints(e.Clients.retired()), ", "),
		last.UTC().Format(time.RFC3339))}
	if r := status.Rotation; r != nil {
		all = append(all, whom(*r, status, now))
	}
	return all
}

// whom names the clients that a step affects, and the nodes that have not reported theirs.
func whom(r health.RotationStatus, status health.ClusterStatus, now time.Time) string {
	text := "clients " + r.OldClientsText(now)
	if status.Rotation == nil {
		text += "; other nodes tell of theirs only while a rotation is open"
	}
	var silent []string
	for _, n := range status.Nodes {
		if !n.Reached && n.State != "lost" {
			silent = append(silent, n.Node)
		}
	}
	if len(silent) > 0 {
		text += "; not known of " + strings.Join(silent, ", ")
	}
	return text
}

// issuedByOld names the clients whose last known certificate is of an old authority. A client that calls once a week
// may not have been seen.
func (e Edition) issuedByOld(issued []Client, now time.Time) []string {
	var names []string
	old := pki.Fingerprints(e.Clients.retired())
	for _, r := range issued {
		if now.Before(r.NotAfter) && slices.Contains(old, r.Authority) {
			names = append(names, r.Name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"no later certificate was issued (`holdfast tls client`) to " + strings.Join(names, ", ")}
}
