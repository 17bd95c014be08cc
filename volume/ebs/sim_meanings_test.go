package ebs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/volume"
)

// outcomes has the result of each meaning of an error at each step: the error, what the journal remembers, and how long
// the volume is left alone. % is EC2's error. The last line of a step is for all other meanings.
var outcomes = []struct {
	step    string
	meaning Meaning
	want    string
}{
	{"Volumes", "", "error: look for the cluster's volumes: %"},
	{"Settle", Denied, "error: %"},
	{"Settle", "", "none free: the claim of vol-1 could not be read back: % | postponed: settle"},
	{"Instances", "", "error: ask whether the holders of the volumes are stopped: %"},
	{"Tag", Denied, "ok | journal: held"}, // tags decide nothing
	{"Tag", "", "error: write the claim of vol-1: %"},
	{"Attach", InUse, "none free: vol-1 could not be attached: % | postponed: settle"},
	{"Attach", NotNow, "none free: vol-1 could not be attached: % | postponed: settle"},
	{"Attach", NotFound, "none free: vol-1 could not be attached: % | postponed: settle"},
	{"Attach", Throttled, "none free: vol-1 could not be attached: % | postponed: settle"},
	{"Attach", NameTaken, "error: attach vol-1 to i-0001: every device name is in use | postponed: setback"},
	{"Attach", NoRoom, "error: attach vol-1 to i-0001: % (detach what this instance does not need, or take a larger instance type) | postponed: setback"},
	{"Attach", Misplaced, "error: attach vol-1 to i-0001: % (volume and instance must be in one zone) | postponed: setback"},
	{"Attach", Denied, "error: attach vol-1 to i-0001: % (`holdfast volume doctor` names the permission that is missing) | postponed: setback"},
	{"Attach", Invalid, "error: attach vol-1 to i-0001: % (see `holdfast volume doctor`) | postponed: setback"},
	{"Attach", Uncertain, "none free: an attachment of vol-1 was requested without an answer; nothing else is tried until its outcome is known, for at most 2m0s | journal: attaching (sent true) | postponed: settle"},
	{"Detach", NotNow, "error: release vol-1 (slot a): the detach was requested, and is not complete after 1m0s"},
	{"Detach", NotFound, "error: release vol-1 (slot a): the detach was requested, and is not complete after 1m0s"},
	{"Detach", NoRoom, "error: release vol-1 (slot a): detach vol-1: % (detach what this instance does not need, or take a larger instance type)"},
	{"Detach", Misplaced, "error: release vol-1 (slot a): detach vol-1: % (volume and instance must be in one zone)"},
	{"Detach", Denied, "error: release vol-1 (slot a): detach vol-1: % (`holdfast volume doctor` names the permission that is missing)"},
	{"Detach", Invalid, "error: release vol-1 (slot a): detach vol-1: % (see `holdfast volume doctor`)"},
	{"Detach", Uncertain, "error: release vol-1 (slot a): detach vol-1: %: until its outcome is known, vol-1 is not used on this machine, for at most 15m0s | journal: detaching (sent true)"},
	{"Detach", "", "error: release vol-1 (slot a): detach vol-1: %"},
	{"Untag", Denied, "ok"},
	{"Untag", "", "error: release vol-1 (slot a): it is detached, but its claim could not be removed: %; others take it after 0s"},
}

// outcome returns the line for a meaning at a step.
func outcome(step string, m Meaning) string {
	for _, o := range outcomes {
		if o.step == step && (o.meaning == m || o.meaning == "") {
			if step == "Settle" {
				step = "Volumes"
			}
			return strings.ReplaceAll(o.want, "%", simError(step, m).Error())
		}
	}
	return ""
}

// TestMeanings shows how every error is handled at every step.
func TestMeanings(t *testing.T) {
	all := []Meaning{InUse, NotNow, NameTaken, NoRoom, Misplaced, NotFound, Denied, Throttled, Invalid, Uncertain}
	for _, step := range []string{"Volumes", "Settle", "Instances", "Tag", "Attach", "Detach", "Untag"} {
		for _, m := range all {
			t.Run(fmt.Sprintf("%s/%s", step, m), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if got, want := meaningAt(t, step, m), outcome(step, m); got != want {
						t.Errorf("got  %s\nwant %s", got, want)
					}
				})
			})
		}
	}
}

// meaningAt makes EC2 answer with an error at a step of a claim, or of a release, of the only volume.
func meaningAt(t *testing.T, step string, m Meaning) string {
	l := simCalm()
	l.nodes, l.lag, l.after = 2, 0, 0
	if step == "Instances" {
		l.takeover = takeoverStopped
	}
	w := newSimWorld(1, l, &simTally{map[string]int{}}, nil)
	w.mu.Lock()
	w.found()
	w.vols = w.vols[:1]
	v, n := w.vols[0], w.nodes[0]
	if step == "Instances" {
		w.attach(v, w.nodes[1].box, "/dev/sdf")
		w.set(w.nodes[1].box, InstanceStopped)
	}
	x := n.process()
	w.nodes[1].process() // which does nothing
	w.mu.Unlock()
	time.Sleep(time.Minute)
	p := x.provider()
	n.refuse = map[string]Meaning{step: m}
	switch step {
	case "Detach", "Untag":
		n.refuse = nil
	case "Settle":
		p.step = func(at string) {
			if at == "after-claim-tag" {
				n.refuse = map[string]Meaning{"Volumes": m}
			}
		}
	}
	c, err := p.Claim(x.life, simWant)
	if n.refuse == nil {
		if err != nil {
			t.Fatal(err)
		}
		n.refuse = map[string]Meaning{step: m}
		err = c.Release(x.life, true)
	}
	j := x.box.journal
	said := []string{"ok"}
	switch {
	case errors.Is(err, volume.ErrNoneFree):
		said = []string{"none free: " + strings.TrimPrefix(err.Error(), "claim a volume: no volume is free: ")}
	case err != nil:
		said = []string{"error: " + strings.TrimPrefix(err.Error(), "claim a volume: ")}
	}
	for what, sent := range map[string]map[string]time.Time{"attaching": j.Attaching, "detaching": j.Detaching} {
		if at, ok := sent[v.id]; ok {
			said = append(said, fmt.Sprintf("journal: %s (sent %v)", what, !at.IsZero()))
		}
	}
	if j.Held != nil {
		said = append(said, "journal: held")
	}
	for limit, name := range map[time.Duration]string{l.settle: "settle", setback: "setback"} {
		if d := time.Until(p.setbacks.until[v.id]); d > limit/2 && d < limit*3/2 {
			said = append(said, "postponed: "+name)
		}
	}
	return strings.Join(said, " | ")
}
