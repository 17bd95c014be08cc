package plan

import (
	"fmt"
	"time"
)

// A pause holds back all that changes the cluster and that nobody has asked for: Replace, Resize, Remove, Defrag,
// Reload (but of a member without a leader), Compact, Disarm, and a recovery without an operator. The rest continues,
// above all what follows, fences and stops, and what brings to its end what was begun: a learner that was admitted
// before the pause joins and is promoted, for until it votes the cluster is a member short. A slot whose old member was
// removed, and whose learner was not added yet, waits: a majority of those left is as many as before.

// paused says who has paused what is done by itself; "" while nobody has, as far as applied here.
func (o knowledge) paused() string {
	p := o.Member.Paused
	if p == nil {
		return ""
	}
	why := ""
	if p.Why != "" {
		why = " (" + p.Why + ")"
	}
	return fmt.Sprintf("paused by %s since %s%s: %s ends it", p.By, p.Since.UTC().Format(time.RFC3339), why,
		Command("resume"))
}

// Resumed decides as [Next] does for a cluster that is not paused: what the operator would see happen after a resume.
func Resumed(o Observation) Action {
	o.Member.Paused = nil
	return Next(o)
}
