package authorities

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// Stance is what a node says of the member that it runs.
type Stance struct {
	Slot    string
	Known   bool // its node is live and has said something
	Running bool
	pki.Stance
}

// View is what a node knows of the cluster that matters to a rotation.
type View struct {
	Leader  bool // its member leads
	Led     bool // its member knows of a leader, or a live node says that it leads
	Paused  bool
	Members []Stance // of every member of the cluster, including this node's
	Clock   string   // why this node's clock may be wrong, "" if the backup store's is about the same
}

// apart is how far the clocks of this node and of the store may differ. Certificates are backdated by as much.
const apart = 24 * time.Hour

// doubt says why this node's clock may be wrong.
func doubt(c *health.ClockStatus) string {
	switch {
	case c == nil:
		return "until this node's clock was compared with the backup store's"
	case math.Abs(c.Difference) > apart.Seconds():
		return fmt.Sprintf("until this node's clock agrees with the backup store's, from which it differs by %s",
			time.Duration(math.Abs(c.Difference)*float64(time.Second)).Round(time.Second))
	}
	return ""
}

// stances returns what the nodes say of the members that they run, this node first. A standby's has no slot.
func stances(o plan.Observation) []Stance {
	own := Stance{Slot: o.Claim.Slot, Known: true, Running: o.Member.Running}
	if own.Running {
		own.Stance = pki.Stance{Trusts: o.Member.Trusts, Issuer: o.Member.Issuer}
	}
	all := []Stance{own}
	for _, p := range o.Peers {
		if f := p.Facts; f != nil {
			all = append(all, Stance{Slot: f.Slot, Known: p.Live, Running: f.Running,
				Stance: pki.Stance{Trusts: f.Trusts, Issuer: f.Issuer}})
		}
	}
	return all
}

// ViewOf extracts the View from an observation. clock compares this node's clock with the store's, nil if that was not
// done.
func ViewOf(o plan.Observation, clock *health.ClockStatus) View {
	v := View{Leader: o.Member.Running && o.Member.Leader && !o.Member.Stalled, Led: o.Member.Running && o.Member.HasLead,
		Paused: o.Member.Paused != nil, Clock: doubt(clock)}
	for _, p := range o.Peers {
		v.Led = v.Led || p.Live && p.Facts != nil && p.Facts.Leader
	}
	said := stances(o)
	for _, m := range o.Member.Members {
		known := false
		for _, s := range said { // there are two while one node does not know yet that it has lost the slot
			if s.Known && s.Slot == m.Slot {
				known = true
				v.Members = append(v.Members, s)
			}
		}
		if !known {
			v.Members = append(v.Members, Stance{Slot: m.Slot})
		}
	}
	return v
}

// Order is what an operator has asked for.
type Order struct {
	By      string // who asks, if that is known
	Begin   bool
	Now     bool // the new authorities sign without waiting for the clients
	DropOld bool // clients no longer need the retired authorities
}

// rotationStep leads from one edition to the next.
type rotationStep string

const (
	stepNone   rotationStep = ""
	stepBegin  rotationStep = "begin"  // from settled to introduced, with new authorities
	stepHurry  rotationStep = "hurry"  // remain introduced, but end the hold
	stepSwitch rotationStep = "switch" // from introduced to issuing
	stepSettle rotationStep = "settle" // from issuing to settled
	stepDrop   rotationStep = "drop"   // remain settled, but drop retired authorities of the clients
)

// nextAuthorities decides which step follows an edition. It also returns the reason or, without a step, what is waited
// for, "" if nothing is.
//
// No two running members ever present what the other one does not trust: the new authorities sign only when all members
// trust them, and the old ones are trusted until no member presents them. An unknown member is waited for until the old
// authorities have a tenth of their life left. Once they have expired, no member is waited for, because nothing is left
// to protect.
//
// The raft leader takes the steps. Any node does if an operator orders it, or if the signing authorities have expired,
// because without them there is no leader. If there is a leader nevertheless, this node's clock is wrong. So it may be
// if the store's is another: then only an operator's order counts. Otherwise one machine that starts with a clock that
// is years ahead would replace the authorities, and clients without the new ones would refuse every member.
func nextAuthorities(e Edition, v View, order Order, now time.Time) (rotationStep, string) {
	asked := order != (Order{})
	dead := !now.Before(e.ends())
	if dead && !asked && !v.Leader && v.Led {
		return stepNone, fmt.Sprintf("the authorities have ended at %s by the clock of this node, but there is a leader, "+
			"whose turn it is: look at the clock", e.ends().Format(time.RFC3339))
	}
	if !asked && !dead && (!v.Leader || v.Paused) {
		if v.Leader && e.Phase != phaseSettled {
			return stepNone, "waiting for `holdfast resume`"
		}
		return stepNone, ""
	}
	if v.Clock != "" && !asked {
		return stepNone, "waiting " + v.Clock
	}
	switch e.Phase {
	case phaseIntroduced:
		return e.nextIntroduced(v, order, now)
	case phaseIssuing:
		switch w := v.waiting(e, now); {
		case order.DropOld:
			return stepNone, "the old authorities can be dropped when the rotation has ended: waiting " +
				cmp.Or(w, "for the leader")
		case w != "":
			return stepNone, "waiting " + w
		}
		return stepSettle, fmt.Sprintf("every member presents %s", pki.Fingerprint(e.Peers.primary()))
	}
	return e.nextSettled(order, now)
}

func (e Edition) nextSettled(order Order, now time.Time) (rotationStep, string) {
	retired := e.Clients.retired()
	expired := slices.ContainsFunc(retired, func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	switch {
	case order.DropOld && len(retired) > 0:
		return stepDrop, "an operator says that no client needs " + strings.Join(pki.Fingerprints(retired), ", ")
	case order.DropOld:
		return stepNone, "there is no old authority to drop"
	case len(e.Clients.Trusted) >= maxTrusted-1 && order.Begin:
		return stepNone, fmt.Sprintf("clients are still to trust %d old authorities: drop them first (--drop-old)",
			len(retired))
	case order.Begin || order.Now:
		return stepBegin, cmp.Or(order.By, "an operator") + " asked for it"
	case !now.Before(e.due()) && len(e.Clients.Trusted) < maxTrusted-1:
		return stepBegin, fmt.Sprintf("two thirds of the life of %s are over, which ends at %s",
			pki.Fingerprint(e.Peers.primary()), e.ends().Format(time.RFC3339))
	case expired:
		return stepDrop, "what clients trusted until now has ended"
	}
	return stepNone, ""
}

func (e Edition) nextIntroduced(v View, order Order, now time.Time) (rotationStep, string) {
	held := now.Before(e.Hold) && now.Before(e.ends())
	w := v.waiting(e, now)
	switch {
	case order.DropOld:
		return stepNone, "the old authorities still sign; they can be dropped when the rotation has ended"
	case held && !order.Now:
		return stepNone, fmt.Sprintf("the servers' certificates are signed by %s from %s on: give clients the new bundle "+
			"until then (`holdfast tls bundle`), or end that time with `holdfast tls rotate-ca --now`",
			pki.Fingerprint(e.Clients.other()), e.Hold.Format(time.RFC3339))
	case w == "":
		return stepSwitch, fmt.Sprintf("every member trusts %s", pki.Fingerprint(e.Peers.other()))
	case held:
		return stepHurry, "an operator says that clients have the new authority; waiting " + w
	}
	return stepNone, "waiting " + w
}

// waiting says until when members keep a rotation waiting, and names them; "" if none does.
func (v View) waiting(e Edition, now time.Time) string {
	old, next := e.Peers.Keys[0], e.Peers.other()
	if e.Phase == phaseIssuing {
		old, next = e.Peers.Keys[1], e.Peers.primary()
	}
	end := e.Peers.of(old).NotAfter
	if !now.Before(end) {
		return ""
	}
	urgent := now.After(end.Add(-end.Sub(old.Made) / 10))
	if len(v.Members) == 0 && !urgent {
		return "until the members are known"
	}
	name := pki.Fingerprint(next)
	var all []string
	for _, m := range v.Members {
		switch {
		case !m.Known && !urgent:
			all = append(all, fmt.Sprintf("slot %s is heard of", m.Slot))
		case !m.Known || !m.Running:
		case e.Phase == phaseIntroduced && !slices.Contains(m.Trusts, name):
			all = append(all, fmt.Sprintf("slot %s trusts %s", m.Slot, name))
		case e.Phase == phaseIssuing && m.Issuer != name:
			all = append(all, fmt.Sprintf("slot %s presents %s", m.Slot, name))
		}
	}
	if all == nil {
		return ""
	}
	return "until " + strings.Join(all, " and ")
}

// ends returns when the first of the signing authorities expires.
func (e Edition) ends() time.Time {
	return earlier(e.Clients.primary().NotAfter, e.Peers.primary().NotAfter)
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// due returns when the authorities must be replaced: at two thirds of the life of the one that expires first.
func (e Edition) due() time.Time {
	first := earlier(e.Clients.Keys[0].Made, e.Peers.Keys[0].Made)
	return first.Add(e.ends().Sub(first) / 3 * 2)
}

// next returns the edition to which a step leads. fresh has the new authorities of stepBegin.
func (e Edition) next(step rotationStep, fresh *Edition, order Order, why string, now time.Time) Edition {
	n := e
	n.Serial, n.Time, n.Why = e.Serial+1, now.UTC(), why
	switch step {
	case stepBegin:
		n.Phase, n.Cause, n.Clients, n.Peers = phaseIntroduced, why, e.Clients.with(fresh.Clients), e.Peers.with(fresh.Peers)
		if !order.Now {
			n.Hold = now.Add(e.ends().Sub(now) / 2).UTC().Truncate(time.Second)
		}
	case stepHurry:
		n.Hold = time.Time{}
	case stepSwitch:
		n.Phase, n.Hold, n.Clients, n.Peers = phaseIssuing, time.Time{}, e.Clients.switched(), e.Peers.switched()
	case stepSettle:
		n.Phase, n.Clients, n.Peers = phaseSettled, e.Clients.signingOnly(), e.Peers.signingOnly().
			trusting(func(*x509.Certificate) bool { return false })
	case stepDrop:
		n.Clients = e.Clients.trusting(func(c *x509.Certificate) bool { return !order.DropOld && !now.After(c.NotAfter) })
	}
	return n
}

func (a keyed) with(fresh keyed) keyed {
	return keyed{Trusted: slices.Concat(a.Trusted, fresh.Trusted), Keys: slices.Concat(a.Keys, fresh.Keys)}
}

func (a keyed) switched() keyed {
	return keyed{Trusted: a.Trusted, Keys: []signing{a.Keys[1], a.Keys[0]}}
}

// signingOnly drops every key but the one that signs. What the others have signed is still trusted.
func (a keyed) signingOnly() keyed {
	return keyed{Trusted: a.Trusted, Keys: a.Keys[:1:1]}
}

// trusting drops the retired certificates for which keep is false.
func (a keyed) trusting(keep func(*x509.Certificate) bool) keyed {
	retired := a.retired()
	trusted := slices.DeleteFunc(slices.Clone(a.Trusted), func(c pemCertificate) bool {
		return slices.Contains(retired, c.Certificate) && !keep(c.Certificate)
	})
	return keyed{Trusted: trusted, Keys: a.Keys}
}

// Around returns what the members of the cluster trust and present, as far as this node knows. complete means that
// every holder of a member's slot is live, and has said what it trusts if it runs etcd.
//
// A lost node counts as long as no other node holds its slot, because its etcd may still run.
func Around(o plan.Observation) (own pki.Stance, others []pki.Stance, complete bool) {
	said := stances(o)
	held := map[string]bool{}
	for i, s := range said {
		if i == 0 && o.Claim.Held || i > 0 && s.Known {
			held[s.Slot] = true
		}
	}
	complete = o.Member.Running && len(o.Member.Members) > 0
	for _, m := range o.Member.Members {
		complete = complete && held[m.Slot]
	}
	for _, p := range o.Peers {
		complete = complete && (p.Facts != nil || !p.Live)
	}
	for _, s := range said[1:] {
		if s.Running && (s.Known || !held[s.Slot]) {
			others = append(others, s.Stance)
			complete = complete && s.Known && s.Trusts != nil
		}
	}
	return said[0].Stance, others, complete
}
