package authorities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/snapshot"
)

// every returns how often the leader looks for the next step.
func (a *Keeper) every() time.Duration { return min(time.Minute, max(a.opt.Life/100, time.Second)) }

// drive takes a step if it is this node's turn. Other nodes do not even read the store.
func (a *Keeper) drive(ctx context.Context, v View) {
	a.turn.Lock()
	dead := a.have != nil && !time.Now().Before(a.have.ends())
	first := dead && !a.dead
	a.dead = dead
	a.turn.Unlock()
	if !v.Leader && !dead {
		a.setStuck("")
		return
	}
	if !v.Leader && first { // a node that has just started may not have heard of the leader yet
		return
	}
	switch _, err := a.Advance(ctx, v, Order{}, false); {
	case err == nil || ctx.Err() != nil:
	case a.problemNow() != nil: // reported as such, and not about a rotation
		a.setStuck("")
	default:
		a.setStuck(err.Error())
	}
}

// tries bounds how often a step is decided again because another node was faster.
const tries = 3

// Advance takes the next step, if there is one, and returns what that means, or what is waited for. With dry it takes
// no step.
func (a *Keeper) Advance(ctx context.Context, v View, order Order, dry bool) (string, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	for range tries {
		e, _ := a.look(ctx, false)
		if problem := a.problemNow(); problem != nil {
			return "", problem
		}
		now := time.Now()
		step, why := nextAuthorities(*e, v, order, now)
		switch asked := order != (Order{}); {
		case step == stepNone && asked:
			return "", errors.New(why)
		case step == stepNone:
			stuck := ""
			if !now.Before(e.ends()) { // else the rotation's state has what it waits for, and waiting is no problem
				stuck = why
			}
			a.setStuck(stuck)
			return why, nil
		case !asked:
			a.setStuck("")
		}
		next, err := a.follow(*e, step, order, why, now)
		if err != nil {
			return "", err
		}
		if dry {
			return next.meaning(step), nil
		}
		err = a.put(ctx, *next)
		if errors.Is(err, snapshot.ErrExists) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("store edition %d of the certificate authorities: %w", next.Serial, err)
		}
		a.wake()
		return next.meaning(step), a.keep(next)
	}
	return "", errors.New("other nodes change the certificate authorities at the same time: try again")
}

// follow returns the edition to which a step leads.
func (a *Keeper) follow(e Edition, step rotationStep, order Order, why string, now time.Time) (*Edition, error) {
	var fresh *Edition
	if step == stepBegin {
		var err error
		if fresh, err = a.fresh(e.Serial+1, now); err != nil {
			return nil, err
		}
	}
	n := e.next(step, fresh, order, why, now)
	return &n, n.sign(e.Peers)
}

// meaning tells an operator what the edition after a step means for the cluster.
func (e Edition) meaning(step rotationStep) string {
	text := fmt.Sprintf("edition %d of the certificate authorities (%s): ", e.Serial, e.Why)
	switch step {
	case stepBegin:
		text += "new ones, which every member trusts after a restart, one at a time, the leader last. "
		if e.Hold.IsZero() {
			return text +
				"They sign as soon as all do; clients that do not trust the new clients' authority refuse the servers from then on"
		}
		return text + fmt.Sprintf("They sign from %s on, or after `holdfast tls rotate-ca --now`: "+
			"give clients the new bundle before (`holdfast tls bundle`)", e.Hold.Format(time.RFC3339))
	case stepHurry:
		return text + "the new ones sign as soon as every member trusts them"
	case stepSwitch:
		return text +
			"the new ones sign from now on, and each node renews its certificates; the old ones are trusted until all have"
	case stepSettle:
		return text +
			"members no longer trust the old one; clients' certificates of the old one stay valid until it ends, or until " +
			"`holdfast tls rotate-ca --drop-old`"
	case stepDrop:
		return text +
			"clients' certificates of retired authorities are refused, by each member from its next start on, one at a " +
			"time, the leader last"
	}
	return text
}

func (r *reported) setStuck(stuck string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck = stuck
}

// problemNow returns the problem of the last look, nil if there was none.
func (r *reported) problemNow() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// wake makes Follow look for the next step at once.
func (a *Keeper) wake() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// Follow takes the steps of a rotation that are this node's turn, until ctx ends. It never returns an error, because
// nothing else on this node depends on it.
func (a *Keeper) Follow(ctx context.Context, view func() View) error {
	for {
		a.drive(ctx, view())
		select {
		case <-ctx.Done():
			return nil
		case <-a.poke:
		case <-time.After(a.every()):
		}
	}
}
