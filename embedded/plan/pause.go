package plan

import (
	"fmt"
	"time"
)

// A pause holds back every change of the cluster that nobody asked for: Replace, Resize, Remove, Defrag, Reload (except
// of a member without a leader), Compact, Disarm, and a recovery without an operator. Everything else continues, above
// all what follows, fences and stops. What has begun is finished: a learner that was admitted before the pause still
// joins and is promoted, because the cluster is a member short until then. If a slot's old member was removed but its
// learner was not added yet, the slot waits: the remaining members need no larger majority than before.

// paused says who has paused the cluster, as applied here; "" if nobody has.
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

// Resumed decides as [Next] would without a pause: what would happen after a resume.
func Resumed(o Observation) Action {
	o.Member.Paused = nil
	return Next(o)
}
