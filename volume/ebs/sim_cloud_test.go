package ebs

import (
	"context"
	"errors"
	"time"
)

// simCloud is EC2 as one process sees it.
type simCloud struct{ x *simProc }

var errSim = errors.New("simulated")

func simError(op string, m Meaning) error {
	code := string(m)
	if m == Uncertain {
		code = ""
	}
	return &Error{Op: op, Code: code, Meaning: m, Err: errSim}
}

// fate is what happens to one request.
type fate struct {
	sent     time.Duration // until it is executed
	answered time.Duration // until the caller gets the answer
	never    Meaning       // the reason why it is not executed
	lost     bool          // the answer is lost
}

// fate draws what happens to a change. A request cannot live longer than its signature.
func (w *simWorld) fate() fate {
	f := fate{sent: w.between(10*time.Millisecond, 300*time.Millisecond)}
	f.answered = f.sent + w.between(time.Millisecond, 300*time.Millisecond)
	lost := w.between(time.Second, 20*time.Second)
	l := w.life
	switch {
	case time.Now().Before(w.outage) && w.chance(3):
		f.never = Throttled
	case time.Now().Before(w.outage):
		f.never, f.answered = Uncertain, lost
	case !w.faulty:
	case w.chance(l.throttle):
		f.never = Throttled
	case w.chance(l.lost):
		w.tally.event("answer lost")
		f.lost, f.answered = true, f.sent+lost
	case w.chance(l.lost):
		w.tally.event("request lost")
		f.never, f.answered = Uncertain, lost
	case w.chance(l.late):
		w.tally.event("request late")
		f.lost, f.sent, f.answered = true, w.between(time.Second, 15*time.Minute-time.Second), lost
	}
	return f
}

// change sends a request that changes something. It may be executed although the caller never gets the answer, or has
// ended.
func (c simCloud) change(ctx context.Context, op, vol string, execute func(v *simVolume, late bool) Meaning) error {
	x := c.x
	x.gate(true)
	w := x.w
	w.mu.Lock()
	v := w.volume(vol)
	if v == nil || v.outside != "" {
		w.fail("%s on %s: it is %s", op, vol, v.outside)
	}
	x.calls[op]++
	w.asked(x, op, vol)
	f := w.fate()
	if m := x.n.refuse[op]; m != "" {
		f.never = m
	}
	if op == "Seize" { // takeover: stopped relies on its not being executed late
		f.sent = min(f.sent, time.Second)
	}
	meaning := f.never
	if f.never == "" {
		late := f.sent > 5*time.Second
		w.after(f.sent, func() { meaning = execute(v, late) })
	}
	w.note("%s %s %s: executed after %s, answered after %s, %q, lost %v", x.name(), op, vol, f.sent, f.answered, f.never, f.lost)
	w.mu.Unlock()
	err := pause(ctx, f.answered)
	x.gate(err == nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !f.lost && meaning != Uncertain && op == "Attach" {
		delete(x.box.open, vol)
	}
	switch {
	case err != nil:
		return &Error{Op: op, Meaning: Uncertain, Err: err}
	case f.lost:
		return simError(op, Uncertain)
	case meaning != "":
		w.note("%s %s %s: %s", x.name(), op, vol, meaning)
		w.tally.event(op + " " + string(meaning))
		return simError(op, meaning)
	}
	return nil
}

func (c simCloud) Attach(ctx context.Context, vol, instance, device string) error {
	return c.change(ctx, "Attach", vol, func(v *simVolume, _ bool) Meaning {
		w := c.x.w
		m := w.attach(v, w.box(instance), device)
		if m != "" {
			w.note("Attach of %s to %s: %s", vol, instance, m)
		}
		return m
	})
}

func (c simCloud) Detach(ctx context.Context, vol, instance string) error {
	w, op := c.x.w, "Detach"
	if instance != c.x.box.id {
		op = "Seize"
		w.mu.Lock()
		b := w.box(instance)
		w.seized(b, vol)
		if w.faulty && b.state == InstanceStopped && w.chance(2) { // at exactly this moment
			w.up(b)
			for _, n := range w.nodes {
				if n.box == b {
					n.start()
				}
			}
		}
		w.mu.Unlock()
	}
	return c.change(ctx, op, vol, func(v *simVolume, late bool) Meaning {
		return w.detach(v, w.box(instance), false, late)
	})
}

func (c simCloud) Tag(ctx context.Context, vol string, tags map[string]string) error {
	return c.change(ctx, "Tag", vol, func(v *simVolume, _ bool) Meaning {
		if c.x.box.denied {
			return Denied
		}
		for _, key := range sortedKeys(tags) {
			c.x.w.note("tag %s %s=%s", vol, key, tags[key])
			c.x.w.tag(v, key, tags[key])
		}
		return ""
	})
}

func (c simCloud) Untag(ctx context.Context, vol, key, value string) error {
	return c.change(ctx, "Untag", vol, func(v *simVolume, _ bool) Meaning {
		if c.x.box.denied {
			return Denied
		}
		if v.tags[key] == value {
			c.x.w.tag(v, key, "")
		}
		return ""
	})
}

// read waits for the answer to a read, and reports whether there is one.
func (c simCloud) read(ctx context.Context, op string) error {
	x := c.x
	x.gate(false)
	w := x.w
	w.mu.Lock()
	x.calls[op]++
	wait := w.between(5*time.Millisecond, 200*time.Millisecond)
	m := Meaning("")
	switch {
	case time.Now().Before(w.outage):
		m, wait = Uncertain, w.between(100*time.Millisecond, 10*time.Second)
	case w.faulty && w.chance(w.life.throttle):
		m = Throttled
	case w.faulty && w.chance(w.life.lost):
		m, wait = Uncertain, w.between(time.Second, 10*time.Second)
	}
	if refuse := x.n.refuse[op]; refuse != "" {
		m = refuse
	}
	w.mu.Unlock()
	err := pause(ctx, wait)
	x.gate(false)
	if err != nil {
		return &Error{Op: op, Meaning: Uncertain, Err: err}
	}
	if m != "" {
		return simError(op, m)
	}
	return nil
}

func (c simCloud) Volumes(ctx context.Context, q Query) ([]Volume, error) {
	if err := c.read(ctx, "Volumes"); err != nil {
		return nil, err
	}
	w := c.x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	age := w.age()
	var all []Volume
	for _, v := range w.vols {
		said, ok := w.said(v, c.x.box, age)
		if !ok || !q.selects(said) {
			continue
		}
		all = append(all, said)
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

func (q Query) selects(v Volume) bool {
	for _, id := range q.IDs {
		if id == v.ID {
			return true
		}
	}
	if len(q.IDs) > 0 {
		return false
	}
	for key, value := range q.Tags {
		if got, ok := v.Tags[key]; !ok || value != "" && value != got {
			return false
		}
	}
	return true
}

// age draws how old an answer is: now and then of any age, and older than the one before.
func (w *simWorld) age() time.Duration {
	switch {
	case !w.faulty || !w.chance(w.life.stale):
		return w.between(0, w.life.lag)
	case w.chance(2):
		return w.between(0, 30*time.Second)
	}
	return w.between(0, time.Since(w.began)+1)
}

// said is what EC2 says of a volume. At its worst, each volume and each part of it has a different age, and a volume
// may be missing.
func (w *simWorld) said(v *simVolume, to *simBox, age time.Duration) (Volume, bool) {
	mixed := w.faulty && w.life.mixed && age > w.life.lag
	if mixed && w.chance(4) {
		return Volume{}, false
	}
	at := func() Volume {
		if mixed {
			age = w.between(0, 2*age)
		}
		then := time.Now().Add(-age)
		for i := len(v.past) - 1; i > 0; i-- {
			if !v.past[i].at.After(then) {
				return v.past[i].v
			}
		}
		return v.past[0].v
	}
	now := at()
	if mixed {
		now.Tags, now.State = at().Tags, at().State
		if v.managed && w.chance(2) {
			now.State = VolumeAvailable
		}
	}
	if time.Now().Before(v.lies) {
		for _, old := range v.past {
			if a := old.v.Attachments; len(a) > 0 && a[0].Instance != to.id && a[0].State == Attached {
				now.Attachments = a
			}
		}
	}
	return now, true
}

func (c simCloud) Instances(ctx context.Context, ids []string) ([]Instance, error) {
	if err := c.read(ctx, "Instances"); err != nil {
		return nil, err
	}
	w := c.x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Instance
	for _, id := range ids {
		b := w.box(id)
		if b == nil || w.faulty && w.chance(w.life.stale) {
			continue
		}
		all = append(all, Instance{ID: id, State: b.state})
	}
	return all, nil
}
