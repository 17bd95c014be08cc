package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// RotationStatus is a rotation of the authorities that holdfast has made, from its first to its last phase.
type RotationStatus struct {
	Phase string `json:"phase"` // introduced, issuing, or RotationRetiring
	// Authorities are "clients" and "peers"; in the last phase only "clients".
	Authorities []string  `json:"authorities"`
	Began       time.Time `json:"began"`           // when the rotation began
	Cause       string    `json:"cause,omitempty"` // why the rotation was begun, and who asked for it
	Since       time.Time `json:"since"`           // when the phase began
	Hold        time.Time `json:"hold,omitzero"`   // the new authorities do not sign before
	Waits       string    `json:"waits"`           // what the next step waits for
	Next        string    `json:"next"`            // what the next step does
	Until       time.Time `json:"until"`           // when the phase ends at the latest
	Old         []string  `json:"old"`             // the clients' authorities that are being removed
	New         string    `json:"new"`             // the clients' authority that replaces them
	// OldClients have presented a certificate of an old authority since Watched, the last to do so first. Their number
	// is bounded; Others counts the rest.
	OldClients []ClientCertificate `json:"old_clients,omitempty"`
	Others     int                 `json:"other_old_clients,omitempty"`
	Watched    time.Time           `json:"watched_since,omitzero"`
}

// RotationRetiring is the last phase. The members no longer use the old authorities, and the servers still accept
// clients' certificates of them.
const RotationRetiring = "retiring"

// ClientCertificate is a certificate that a client has presented to a member.
type ClientCertificate struct {
	Name        string    `json:"name"` // the common name
	Fingerprint string    `json:"fingerprint"`
	Authority   string    `json:"authority"` // fingerprint
	NotAfter    time.Time `json:"not_after"`
	Last        time.Time `json:"last_seen"`
}

// IssuedClient is the last certificate that `holdfast tls client`, `tls observer` or `tls operator` has issued to one
// name. Only its holder renews it, if anyone does.
type IssuedClient struct {
	Role        string    `json:"role,omitempty"` // client, observer, operator; "" is a client
	Name        string    `json:"name"`           // the common name
	Fingerprint string    `json:"fingerprint"`
	Authority   string    `json:"authority"` // fingerprint of the authority that signed it
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	Renewable   bool      `json:"renewable,omitempty"` // its holder may get another one for the same key
}

// roleClient is the role of a certificate that was issued before there were roles.
const roleClient = "client"

// Of says whose certificate it is, as role and name: two roles may use the same name.
func (c IssuedClient) Of() string { return cmp.Or(c.Role, roleClient) + " " + c.Name }

// maxOldClients bounds the clients that a status names.
const maxOldClients = 30

// Add adds clients that have presented an old certificate. If several members have seen the same certificate, the last
// time counts.
func (r *RotationStatus) Add(more ...ClientCertificate) {
	all := slices.Clone(r.OldClients)
	for _, c := range more {
		i := slices.IndexFunc(all, func(o ClientCertificate) bool { return o.Fingerprint == c.Fingerprint })
		switch {
		case i < 0:
			all = append(all, c)
		case c.Last.After(all[i].Last):
			all[i] = c
		}
	}
	slices.SortStableFunc(all, func(a, b ClientCertificate) int { return b.Last.Compare(a.Last) })
	if extra := len(all) - maxOldClients; extra > 0 {
		all, r.Others = all[:maxOldClients], r.Others+extra
	}
	r.OldClients = all
}

// OldClientsText names the clients that present a certificate of an old authority.
func (r *RotationStatus) OldClientsText(now time.Time) string {
	if r.Watched.IsZero() {
		return "that present an old certificate are not known here: no node answers"
	}
	if len(r.OldClients) == 0 {
		return fmt.Sprintf("none has presented an old certificate (%s) in %s", strings.Join(r.Old, ", "), Age(now, r.Watched))
	}
	return fmt.Sprintf("that presented an old certificate (%s) in %s: %s", strings.Join(r.Old, ", "), Age(now, r.Watched),
		namesText(r.OldClients, r.Others, now))
}

func namesText(clients []ClientCertificate, others int, now time.Time) string {
	var names []string
	for _, c := range clients {
		names = append(names, fmt.Sprintf("%s %s ago", cmp.Or(c.Name, c.Fingerprint), Age(now, c.Last)))
	}
	if others > 0 {
		names = append(names, fmt.Sprintf("%d more", others))
	}
	return strings.Join(names, ", ")
}

// openRotation returns the open rotation according to the node with the newest edition, the leader before others; nil
// if none is open. It adds the clients that any node has seen. A node that cannot reach the store has an old edition.
func openRotation(nodes []NodeStatus) *RotationStatus {
	var best *TLSStatus
	led := false
	for _, n := range nodes {
		if n.TLS == nil {
			continue
		}
		leads := n.Etcd != nil && n.Etcd.Leader
		if best == nil || n.TLS.Edition > best.Edition || n.TLS.Edition == best.Edition && leads && !led {
			best, led = n.TLS, leads
		}
	}
	if best == nil || best.Rotation == nil {
		return nil
	}
	all := *best.Rotation
	for _, n := range nodes {
		if n.TLS == nil || n.TLS == best || n.TLS.Rotation == nil || !slices.Equal(n.TLS.Rotation.Old, all.Old) {
			continue
		}
		r := n.TLS.Rotation
		all.Others += r.Others
		if r.Watched.After(all.Watched) {
			all.Watched = r.Watched
		}
		all.Add(r.OldClients...)
	}
	return &all
}

const (
	// rotationPatience is how long members may keep a rotation waiting. Each needs at most a minute.
	rotationPatience = time.Hour
	// holdNotice is how long before the new authorities sign a finding says that clients need the new bundle; at most
	// half of the time that clients have.
	holdNotice = 30 * 24 * time.Hour
	// stillPresents is for how long after its last use of an old certificate a client is reported. So a client that has
	// a new certificate is soon no longer reported.
	stillPresents = 24 * time.Hour
)

// judgeRotation reports an open rotation. An open rotation is normal, but it may be forgotten, because it lasts until
// somebody has taken care of the clients.
func (s judged) judgeRotation(out *findings) {
	r := s.Rotation
	if r == nil {
		return
	}
	out.add(AuthorityRotation, "",
		"a rotation of the authorities of %s has been open since %s, %s for %s: it waits %s; clients %s",
		strings.Join(r.Authorities, " and "), r.Began.UTC().Format(timeFormat), r.Phase, Age(s.now, r.Since), r.Waits,
		r.OldClientsText(s.now))
	if r.Phase == RotationRetiring {
		r.judgeClients(out, s.now)
		return
	}
	since := r.Since
	if r.Hold.After(since) {
		since = r.Hold
	}
	switch {
	case s.Paused != nil:
	case s.now.Before(r.Hold) && r.Hold.Sub(s.now) <= min(holdNotice, r.Hold.Sub(r.Since)/2):
		out.add(BundleDue, "", "from %[2]s on, in %[3]s, %[1]s signs the servers' certificates: clients that do not "+
			"trust it then refuse the servers", r.New, r.Hold.UTC().Format(timeFormat), Age(r.Hold, s.now))
	case s.now.Sub(since) >= rotationPatience:
		out.add(RotationWaits, "", "the rotation of the authorities has waited in the phase %s for %s: %s", r.Phase,
			Age(s.now, since), r.Waits)
	}
}

// judgeClients names the clients that still use a certificate of an authority that only they need.
func (r *RotationStatus) judgeClients(out *findings, now time.Time) {
	var still []ClientCertificate
	for _, c := range r.OldClients {
		if c.Last.After(r.Since) && now.Sub(c.Last) < stillPresents {
			still = append(still, c)
		}
	}
	if len(still) == 0 {
		return
	}
	out.add(ClientsOld, "", "clients still present certificates of the old authority (%s), which ends at %s: %s",
		strings.Join(r.Old, ", "), r.Until.UTC().Format(timeFormat), namesText(still, r.Others, now))
}

// issued returns the last certificates that were issued to clients, as far as any node knows, those that expire first
// before others.
func (s judged) issued() []IssuedClient {
	last := map[string]IssuedClient{}
	for _, n := range s.Nodes {
		if n.TLS == nil {
			continue
		}
		for _, c := range n.TLS.Issued {
			if c.NotAfter.After(last[c.Of()].NotAfter) {
				last[c.Of()] = c
			}
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b IssuedClient) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
}

// clientMourned is how long an expired client certificate is reported. A client that has had none for so long is gone.
const clientMourned = 7 * 24 * time.Hour

// JudgeIssued reports clients' certificates that expire soon, or have just expired. all has the last certificate of
// each client.
func JudgeIssued(all []IssuedClient, now time.Time) []Finding {
	var out findings
	for _, c := range all {
		left, end := c.NotAfter.Sub(now), c.NotAfter.UTC().Format(timeFormat)
		role, to := cmp.Or(c.Role, roleClient), "FILE"
		if role == roleClient {
			to = "DIR"
		}
		text := fmt.Sprintf("the %s certificate of %s expires in %s, at %s", role, c.Name, Age(c.NotAfter, now), end)
		switch {
		case left > 0 && left < min(expiresSoon, c.NotAfter.Sub(c.NotBefore)/10):
		case left <= 0 && left > -clientMourned:
			text = fmt.Sprintf("the %s certificate of %s expired at %s", role, c.Name, end)
		default:
			continue
		}
		if c.Renewable {
			text += ": its machine has not renewed it (`holdfast discover`)"
		}
		out.add(ClientEnds, c.Name, "%s, and there is no later one", text).
			then("`holdfast tls %s %s --to %s` issues another one; `holdfast tls forget %s` if the %s is gone.", role,
				c.Name, to, c.Name, role)
	}
	return out
}

// Text describes the rotation for people.
func (r RotationStatus) Text(now time.Time) string {
	cause := ""
	if r.Cause != "" {
		cause = ": " + r.Cause
	}
	return fmt.Sprintf("CA ROTATION %s for %s, authorities of %s (begun %s%s)\n  waits   %s\n  next    %s; no later than %s\n"+
		"  clients %s\n", r.Phase, Age(now, r.Since), strings.Join(r.Authorities, " and "),
		r.Began.UTC().Format(time.RFC3339), cause, r.Waits, r.Next, r.Until.UTC().Format(time.RFC3339), r.OldClientsText(now))
}
