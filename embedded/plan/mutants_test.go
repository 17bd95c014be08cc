package plan

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is a guard of the protocol made void.
type mutant struct {
	name string
	file string
	old  string
	new  string
	by   test
}

// test is the test that must see the mutant, and what it must say: one that fails to build sees nothing.
type test struct{ name, says string }

var (
	byResizes    = test{"TestResizeSimulation", `(I\d+|R\d+|liveness): [^\n]*`}
	bySimulation = test{"TestSimulation", `(I\d+|R\d+|liveness): [^\n]*`}
	byFence      = test{"TestFence", `I9: [^\n]*`}
	byVacancy    = test{"TestStaleVacancy", `I4: [^\n]*`}
	byFoundings  = test{"TestFoundings", `I2: [^\n]*`}
	bySurvey     = test{"TestSurvey", `survey: [^\n]*`}
	byLocks      = test{"TestLockSimulation", `L\d: [^\n]*`}
	byDisruption = test{"TestDisruption|TestHaste", `got [^\n]*`}
	byUpkeep     = test{"TestUpkeep", `(U\d|liveness): [^\n]*`}
	byReloads    = test{"TestReloadSimulation", `(L\d|liveness): [^\n]*`}
	byJudge      = test{"TestJudge", `upkeep_test.go:\d+: [^\n]*`}
	byWord       = test{"TestWord", `the answer is [^\n]*`}
	byStories    = test{"TestStories", `story:[^$]*want: [^\n]*`} // what random lives meet too rarely, or another guard catches
)

var mutants = []mutant{
	{"free abandon", "founding.go", `obstacle := o.movable(target); obstacle != ""`, `obstacle := o.movable(target); obstacle == "-"`, byFoundings},
	{"majority of the last charter only", "founding.go", `for _, p := range promises {
		if !to.keepsMajority`, `for _, p := range promises[len(promises)-1:] {
		if !to.keepsMajority`, byFoundings},
	{"newer only", "founding.go", `if !to.keepsMajority(p) {`, `if false && !to.keepsMajority(p) {`, byFoundings},
	{"majority only", "founding.go", `if !to.newer(promises[len(promises)-1]) {`, `if false && !to.newer(promises[len(promises)-1]) {`, byStories},
	{"found with a missing holder", "founding.go", `if len(missing) > 0 {`, `if len(missing) > len(o.Config.Slots)/2 {`, bySimulation},
	{"ignore the store", "founding.go", "	shared = true\n", "	shared = false\n", bySimulation},
	{"promise against a witness", "founding.go", `if why := o.witness(mine); why != "" {`, `if why := o.witness(mine); why == "-" {`, byStories},
	{"commit against a witness", "founding.go", `case o.witness(&c) != "":`, `case o.witness(&c) == "-":`, byStories},
	{"a witness of what is known", "founding.go", `known := own != nil && FoundingRecord(*own).Token() == w.Token`, `known := false`, byStories},
	{"ignore lost peers", "lineage.go", `p.Facts.Record == nil || o.stillborn(p.Facts.Record) {`, `p.Facts.Record == nil || !p.Live {`, bySimulation},
	{"found beside a cluster", "founding.go", "	case known != nil:\n", "	case known != nil && known.ID == \"-\":\n", bySimulation},
	{"found with a disk that is not blank", "founding.go", `case f.Phase != PhaseBlank:`, `case f.Phase == PhaseNone:`, byStories},
	{"commit without all promises", "founding.go", `if !promised {`, `if false {`, bySimulation},
	{"commit to an older promise", "founding.go", `known.ID == FoundingRecord(*me.Promise).ID:
		return o.commit(*me.Promise,`, `slices.ContainsFunc(o.Disk.Ledger.Promises, func(c Charter) bool { return known.ID == FoundingRecord(c).ID }):
		return o.commit(known.Charter,`, byFoundings},
	{"commit on the disk before the store", "sim_act_test.go", `[]func(){func() { n.mirror(a) }, write, tell}`, `[]func(){write, func() { n.mirror(a) }, tell}`, bySimulation},
	{"forget promises", "ledger.go", `l.Promises = append(slices.Clone(l.Promises), *a.Charter)`, `l.Promises = append(slices.Clone(l.Promises[:0]), *a.Charter)`, bySimulation},
	{"charters never follow", "founding.go", `c.follow(p)`, `_ = p`, bySimulation},
	{"charters never merge", "founding.go", `m = agreed.merge(p)`, `m = p`, bySimulation},
	{"start as founder again", "resume.go", `case l.Started != "" || l.Role`, `case l.Role`, bySimulation},
	{"start as founder although replaced", "resume.go", `case o.replacedAs(r) != "":`, `case o.replacedAs(r) == "-":`, byStories},
	{"resume although removed", "next.go", `!o.changing() && o.removedBy(o.Disk.Member) != "":`, `o.removedBy(o.Disk.Member) == "-":`, byStories},
	{"join although removed", "resume.go", `if by := o.removedBy(id); by != "" {`, `if by := o.removedBy(id); by == "-" {`, byStories},
	{"accept another disk's admission", "resume.go", `if ad.Disk == o.Claim.Disk && ad.Slot == o.Claim.Slot`, `if ad.Slot == o.Claim.Slot`, byStories},
	{"accept an old admission", "resume.go", ` && o.removedBy(ad.ID) == "" {`, ` {`, byStories},
	{"accept an admission of a generation before", "resume.go", ` && listed && !spent && `, ` && (listed || true) && !spent && `, byStories},
	{"accept an admission twice", "resume.go", ` && listed && !spent && `, ` && listed && (!spent || true) && `, byStories},
	{"wait for a learner that lost its log", "steady.go", ` && f.Join != ad.ID {`, ` {`, byStories},
	{"keep another's admission", "resume.go", `l.Role == RoleJoiner && l.Join != d.Member`, `l.Role == "-"`, byStories},
	{"ignore rivals", "next.go", `if a, stop := o.rivalry(); stop {`, `if a, stop := o.rivalry(); stop && a.Kind == "-" {`, bySimulation},
	{"yield what is not blank", "rivals.go", `case pristine:`, `case o.Config.Yields:`, bySimulation},
	{"a running rival comes before yielding", "rivals.go", `case pristine:`, `case pristine && !f.Running:`, byStories},
	{"take the slot of a lost member", "rivals.go", `case f.past():`, `case f.past() && p.Live:`, byStories},
	{"forget who held a slot", "rivals.go", `if node != o.Node {`, `if node == "-" {`, byStories},
	{"start beside a twin", "next.go", `case o.Twin != "" && !o.Member.Running:`, `case o.Twin == "-":`, byStories},
	{"resume before listening", "next.go", `case o.Early && `, `case false && o.Early && `, byStories},
	{"repair with any record", "resume.go", ` && f.CID == o.Disk.ClusterID {`, ` {`, bySimulation},
	{"replace without asking the holder", "sim_act_test.go", `func() { n.confirm(a) }, `, ``, byVacancy},
	{"replace without a quorum", "steady.go", `	case q.healthy <= q.voters/2: // of all voters, hence also of those that are left after the removal`, `	case q.healthy < 0:`, bySimulation},
	{"replace a connected member", "steady.go", `	case m.Connected:
		return nil, fmt.Sprintf("slot %s has no data`, `	case q.healthy < 0:
		return nil, fmt.Sprintf("slot %s has no data`, byStories},
	{"replace a disk with data", "steady.go", `case f.Phase == PhaseVacant:`, `case f.Phase == PhaseVacant || f.Phase == PhaseData && !m.Connected:`, byStories},
	{"never heed a stillborn founding", "founding.go", `moved > len(r.Charter.Seats)/2`, `moved > len(r.Charter.Seats)`, byStories},
	{"stillborn after one move", "founding.go", `moved > len(r.Charter.Seats)/2`, `moved > 0`, byStories},
	{"resume in an older generation", "resume.go", `} else if later.ID != r.ID {`, `} else if later.ID == "-" {`, byStories},
	{"serve on in an older generation", "steady.go", `if later := o.superseded(); later != nil {`, `if later := o.superseded(); later != nil && o.Member.Leader {`, bySimulation},
	{"the store is no evidence of a generation", "lineage.go", `	case r.descends(best):
		best = r
	default:
		return nil, fmt.Sprintf("the cluster went`, `	case r.descends(best):
	default:
		return nil, fmt.Sprintf("the cluster went`, bySimulation},
	{"two generations of one number", "lineage.go", `	case r.ID == best.ID || best.descends(r):
		default:`, `	case r.ID == best.ID || best.descends(r) || r.Lineage() == best.Lineage():
		default:`, byStories},
	{"any majority concludes", "fence.go", `return f.voters-f.lost-max(0, f.need-free) < f.voters/2+1`, `return true`, byFence},
	{"any disk gets a seat", "fence.go", `s.free = !s.anchored && (heir || lost && (known || h.facts.Record == nil && s.prepared))`, `s.free, s.anchored = false, true`, bySimulation},
	{"a disputed slot gets a seat", "fence.go", `h != nil && !disputed {`, `h != nil {`, byStories},
	{"conclude before a majority has prepared", "fence.go", `case ready >= f.need && f.safe(free):`, `case ready > 0 && f.safe(free):`, byStories},
	{"a replacement gets a seat", "fence.go", ` && h.facts.Member == s.member && `, ` && `, byFence},
	{"accept the record and let the old member run", "sim_restore_test.go", `n.todo = []func(){stop, write, tell}`, `n.todo = []func(){write, tell}`, bySimulation},
	{"enter although the record knew too little", "generation.go", `case r.Restore != nil && seat.Disk == o.Claim.Disk && o.supplanted(r) == "":`, `case r.Restore != nil && seat.Disk == o.Claim.Disk:`, byStories},
	{"enter without any memory", "founding.go", `case known != nil && o.prepared(known.ID):`, `case known != nil && known.Restore != nil:`, byStories},
	{"found a restored generation without its data", "generation.go", `	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == ""`, `	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == "" && (o.Disk.WAL || o.Disk.Built != "")`, byStories},
	{"swap before it is prepared", "generation.go", `	case swapped || o.prepared(r.ID):`, `	case swapped || o.Disk.Built == r.ID:`, bySimulation},
	{"swap although replaced", "generation.go", `	case o.replacedAs(r) != "":`, `	case o.replacedAs(r) == "-":`, byStories},
	{"swap again", "generation.go", `	case swapped || o.prepared(r.ID):`, `	case swapped && o.prepared(r.ID) || o.prepared(r.ID):`, byStories},
	{"a founder that cannot prepare waits for ever", "generation.go", `	case obstacle != "" && o.leader(r) != nil:`, `	case obstacle == "-":`, byStories},
	{"a founder that cannot prepare leaves before there is a leader", "generation.go", `	case obstacle != "" && o.leader(r) != nil:`, `	case obstacle != "":`, byStories},
	{"the ledger after a swap", "ledger.go", `l.Started, l.Prepared = disk, nil`, `l.Prepared = nil`, bySimulation},
	{"prepare what a strange store proposes", "restoring.go", ` || o.stranger() != "" {
		return nil
	}
	return s.Restore`, ` {
		return nil
	}
	return s.Restore`, byStories},
	{"start what was declared lost", "resume.go", `p != nil && slices.Contains(p.Lost, o.Claim.Slot) {`, `p != nil && p.Lost == nil {`, byStories},
	{"change members during a restore", "steady.go", `case a != nil && (frozen == "" ||`, `case a != nil && (frozen != "-" ||`, byStories},
	{"promote during a restore", "steady.go", `o.frozen() == "" && a.Kind == Promote)`, `a.Kind == Promote)`, byStories},
	{"change members during a pause", "pause.go", `if p == nil {`, `if p == nil || p.By != "" {`, bySimulation},
	{"leave a learner to itself during a pause", "steady.go", `o.frozen() == "" && a.Kind == Promote) &&`, `false) &&`, byStories},
	{"change members where others know of a restore", "restoring.go", `if o.Store.Unknown != "" && f != nil && f.Restore != ""`, `if o.Store.Unknown == "-" && f != nil && f.Restore != ""`, byStories},
	{"discard what an unknown store may want", "restoring.go", `case s.Unknown != "" || s.Record == nil:`, `case s.Unknown != "":
		return Action{Kind: Discard, Why: "unknown"}, true
	case s.Record == nil:`, byStories},
	{"discard against a store that knows less", "restoring.go", `case s.Unknown != "" || s.Record == nil:
		return Action{}, false`, `case s.Unknown != "":
		return Action{}, false
	case s.Record == nil:`, byStories},
	{"never discard", "restoring.go", `	if d, ok := o.discard(); ok {`, `	if d, ok := o.discard(); ok && d.Kind == "-" {`, byStories},
	{"everyone proposes", "restoring.go", `		return o.Member.Leader
	}`, `		return true
	}`, byStories},
	{"a bad command again and again", "restoring.go", `		case r.Problem != "":`, `		case r.Problem == "-":`, byStories},
	{"restore by itself although a volume is elsewhere", "founding.go", `		obstacle = o.witness(nil)`, `		obstacle = ""`, byStories},
	{"restore by itself into other slots", "founding.go", `case obstacle == "" && !slices.Equal(r.Charter.Slots(), o.Config.Slots):`, `case obstacle == "-":`, byStories},
	{"restore by itself beside a founder", "founding.go", `	case o.half(r) != "":`, `	case o.half(r) == "-":`, byStories},
	{"restore by itself unasked", "founding.go", `	if !o.Config.Automatic {`, `	if o.Config.Never {`, byStories},
	{"mirror over a strange cluster", "steady.go", `case s.Record == nil || mine.descends(s.Record):`, `case s.Record == nil || mine.ID != s.Record.ID:`, byStories},
	{"data of the parent as the child's", "observation.go", `if !o.changing() { // else`, `if true { // else`, bySimulation},
	{"the longest log, whatever its term", "recover.go", `return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index`, `return l.Index > m.Index`, byStories},
	{"the highest term, whatever its length", "recover.go", `return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index`, `return l.Term > m.Term`, byStories},
	{"recover without all that are lost declared", "recover.go", `	if len(missing) > 0 {`, `	if len(missing) > len(s.Slots) {`, byStories},
	{"recover from a log that another survivor's exceeds", "recover.go", `case v.Voter && v.Here && v.Log.after(*chosen.Log):`, `case v.Voter && v.Here && v.Log.after(*v.Log):`, byStories},
	{"recover where the rest could have a majority", "recover.go", `if left >= voters/2+1 {`, `if left > voters {`, byStories},
	{"recover beside a leader", "recover.go", `		case f.Leader:`, `		case f.Leader && f.Log != nil:`, byStories},
	{"recover beside a follower", "recover.go", `		case f.Log == nil:`, `		case f.Log == nil && f.Leader:`, byStories},
	{"recover although there is a leader again", "recover.go", `	if r := o.Disk.Ledger.Record; o.Member.Running && o.Member.HasLead &&`, `	if r := o.Disk.Ledger.Record; o.Member.Running && o.Member.Leader && o.Node == "-" &&`, byStories},
	{"recover although the lost are back", "recover.go", `h.facts.Phase == PhaseData && h.facts.Record.ID == p.Parent() {`, `h.facts.Phase == PhaseVacant && h.facts.Record.ID == p.Parent() {`, byStories},
	{"a recovery has many founders", "charter.go", `	if r.Cause == Recovered {`, `	if r.Cause == "-" {`, bySimulation},
	{"a recovery seats whoever is here", "recover.go", `		if v.Slot == p.Survivor {
			made.Disk,`, `		if made.Disk = v.Disk; v.Slot == p.Survivor {
			made.Disk,`, bySimulation},
	{"swap what was copied before the log grew", "recover.go", `	case whole && (!d.WAL || d.Log != nil && *d.Log == *d.Ledger.Prepared.Log):`, `	case whole:`, byStories},
	{"a learner survives", "recover.go", `if v.Voter && v.Here && v.Runs && !v.Dropped && (best < 0`, `if v.Here && v.Runs && !v.Dropped && (best < 0`, byStories},
	{"recover by itself without proof", "recover.go", `	case len(unproven) > 0:`, `	case len(unproven) > len(survey.Slots):`, byStories},
	{"recover by itself because the slot has a blank disk", "recover.go", `(founded || f.Join == v.Member)`, `(founded || f.Phase != PhaseNone)`, byStories},
	{"the disk of a founder long replaced", "recover.go", ` && o.Disk.Founders[slot] == v.Member`, ``, byStories},
	{"recover by itself while paused", "recover.go", `	case o.paused() != "":`, `	case o.paused() == "-":`, byStories},
	{"recover beside data that nobody has looked at", "recover.go", `v.Idle && !v.Here:`, `v.Idle && v.Here:`, bySurvey},
	{"recover although a drained member would do", "recover.go", `if here <= voters/2 || idle == nil {`, `if here >= 0 {`, bySurvey},
	{"recover into a store that is not all's", "recover.go", `	if n := o.stranger(); n != "" {`, `	if n := o.stranger(); n == "-" {`, bySurvey},
	{"weigh the lost who may never have voted", "fence.go", `return s == nil || slices.Contains(s.From, slot) && slices.Contains(s.Slots, slot)`, `return s == nil || s.Record != ""`, byStories},
	{"nobody votes who is not seen", "fence.go", `if o.leader(old) == nil && !o.Member.Leader {`, `if false {`, byStories},
	{"a leader's list may be old", "fence.go", `if o.leader(old) == nil && !o.Member.Leader {`, `if o.Node != "" {`, byStories},
	{"the dropped do not vote any more", "fence.go", `may = slices.Concat(set.Slots, set.From, f.slots)`, `may = slices.Concat(set.Slots, f.slots)`, byStories},
	{"all that are lost are members", "fence.go", `if len(lists) == 0 && f.lost > 0 {`, `if len(lists) == 0 && f.lost > 9 {`, byStories},
	{"go on from whom nobody may have told of the removal", "recover.go", ` && !v.Dropped && (best < 0`, ` && (best < 0`, byStories},
	{"give up a disk that takes part in a restore", "resize.go", `if p := o.open(); p != nil && slices.Contains(p.founders`, `if p := o.open(); p != nil && p.ID == "" && slices.Contains(p.founders`, byStories},
	{"never promote", "steady.go", `case listed && m.Learner && f.Running && f.Member == m.ID:`, `case listed && m.Learner && f.Running && f.Member == 0:`, bySimulation},
	{"start on unfit data", "resume.go", `if d.Unfit != "" {`, `if d.Unfit == "-" {`, byStories},
	{"set nothing aside that is unfit", "next.go", `o.Disk.Ledger.Record != nil && !o.changing() && o.removedBy`, `o.Disk.Ledger.Record != nil && o.Disk.Unfit == "" && !o.changing() && o.removedBy`, byStories},
	{"start an older etcd than the cluster's", "resume.go", `	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := r.`, `	if why := o.outdated(r); why == "-" {
		return wait("%s", why)
	}
	peers := r.`, byStories},
	{"found with the other scheme", "resume.go", `case o.unlike(r) != "":`, `case o.unlike(r) == "-":`, byStories},
	{"resume with the other scheme", "resume.go", `	if why := o.unlike(r); why != "" {
		return wait("%s", why)
	}
	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := r.`, `	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := r.`, byStories},
	{"join with the other scheme", "resume.go", `	if why := o.unlike(r); why != "" {
		return wait("%s", why)
	}
	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := map`, `	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := map`, byStories},
	{"join with an older etcd than the cluster's", "resume.go", `	if why := o.outdated(r); why != "" {
		return wait("%s", why)
	}
	peers := map`, `	if why := o.outdated(r); why == "-" {
		return wait("%s", why)
	}
	peers := map`, byStories},
	{"heed the version of a member that does not run", "versions.go", `f == nil || !f.Running || f.Record == nil || f.Record.ID != r.ID || !older`, `f == nil || f.Record == nil || f.Record.ID != r.ID || !older`, byStories},
	{"heed the version of another generation", "versions.go", `f.Record.ID != r.ID || !older`, `!older`, byStories},
	{"compare minors as text", "versions.go", `return one && two && cmp.Or(cmp.Compare(x.major, y.major), cmp.Compare(x.minor, y.minor)) < 0`, `return one && two && x != y && cmp.Less(a, b)`, byStories},
	{"change members while minors differ", "versions.go", `if older(f.Etcd, o.Config.Etcd) || older(o.Config.Etcd, f.Etcd) {`, `if older(o.Config.Etcd, f.Etcd) {`, byStories},
	{"freeze for a learner's minor", "versions.go", ` || !o.voter(f.Member) {`, ` {`, byStories},
	{"admit what cannot join", "steady.go", `case older(f.Etcd, o.Member.Cluster):`, `case f.Etcd == "-":`, byStories},
	{"go down although it leaves no majority", "disruption.go", `need := voters/2 + 1`, `need := voters / 2`, byLocks},
	{"go down although another has the lock", "sim_lock_test.go", `l != nil && (l.Slot != n.disk.slot || l.Node != n.name) || `, `l != nil && l.Node == "-" || `, byLocks},
	{"start although drained", "next.go", `case o.Drained && !o.Member.Running:`, `case o.Drained && o.Member.Removed:`, byLocks},
	{"never give the lock back", "disruption.go", `	if !o.locks() {`, `	if o.Claim.Held {`, byLocks},
	{"judge without asking for the lock", "disruption.go", `case m.Lock != nil && !o.locks():`, `case m.Lock != nil && o.locks():`, byDisruption},
	{"go down during a restore", "disruption.go", `case o.Disk.Ledger.Record != nil && o.frozen() != "":`, `case o.Disk.Ledger.Record == nil:`, byDisruption},
	{"go down unseen", "disruption.go", `case seen == nil:`, `case seen == nil && m.Leader:`, byDisruption},
	{"go down beside a learner", "disruption.go", `	case learners != nil:`, `	case learners != nil && left < need:`, byDisruption},
	{"a follower's word on the members", "disruption.go", `if !f.Running || !f.Leader {`, `if !f.Running {`, byDisruption},
	{"wait without a quorum", "disruption.go", `case near <= voters/2:`, `case near < 0:`, byDisruption},
	{"wait for nobody", "disruption.go", `case staying == 0:`, `case staying < 0:`, byDisruption},
	{"an unheard member is told to end", "disruption.go", `return connected && !known`, `return false`, byDisruption},
	{"a minority changes the slots", "resize.go", `case len(w.nodes) > voters/2 && w.steady():`, `case len(w.nodes) > 0:`, byResizes},
	{"those that leave bring themselves back", "resize.go", `case len(w.nodes) > voters/2 && w.steady():`, `case len(w.nodes) > voters/2:`, byStories},
	{"anybody's wish counts", "resize.go", `f.Slot == m.Slot && f.Member == m.ID && f.Record`, `(f.Slot == m.Slot || f.Slot == "") && f.Record`, byResizes},
	{"the set of another generation", "resize.go", `if s != nil && s.Record == r.ID && (newest == nil`, `if s != nil && (newest == nil`, byStories},
	{"the lower serial wins", "resize.go", `s.Serial > newest.Serial) {`, `s.Serial < newest.Serial) {`, byResizes},
	{"agree before the last set is applied", "resize.go", `if now != nil && now.Serial > serial {`, `if now != nil && now.Serial > serial+1 {`, byStories},
	{"note what is older", "resize.go", ` && l.Set.Serial >= s.Serial {`, ` && l.Set.Serial == s.Serial {`, byStories},
	{"two joins at once", "steady.go", `case q.learner != nil && q.learner.Slot != slot:`, `case q.learner != nil && q.learner.Slot == "-":`, byResizes},
	{"grow while a voter is away", "steady.go", `case m.ID == 0 && len(q.away) > 0:`, `case m.ID == 0 && len(q.away) > 9:`, byResizes},
	{"grow before a lost disk is replaced", "shrink.go", `	mend(true)
	all = append(all, o.bury(q, wanted))
	mend(false)
`, `	mend(false)
	all = append(all, o.bury(q, wanted))
	mend(true)
`, byStories},
	{"remove without a majority", "shrink.go", `	case q.healthy <= q.voters/2: // of all voters, hence also of those that are left
`, `	case q.healthy < 0:
`, byResizes},
	{"remove while a join is under way", "shrink.go", `		case q.learner != nil:
			return step{note:`, `		case q.voters < 0:
			return step{note:`, byResizes},
	{"what serves goes while another is away", "shrink.go", `	case len(q.away) > 0:
		return refuse(`, `	case len(q.away) > 1:
		return refuse(`, byResizes},
	{"what serves goes before what is dead", "shrink.go", `	all = append(all, o.bury(q, wanted))
	mend(false)
	return append(all, o.dismiss(q, wanted))`, `	mend(false)
	return append(all, o.dismiss(quorum{voters: q.voters, learner: q.learner}, wanted), o.bury(q, wanted))`, byResizes},
	{"the leader leaves first", "shrink.go", `	case len(out) > 0:
		return step{action:`, `	case len(out) > 0 && slices.Contains(wanted, o.Claim.Slot):
		return step{action:`, byResizes},
	{"shrink before it has grown", "shrink.go", `if m, ok := o.listed(keep); !ok || m.Learner {`, `if m, ok := o.listed(keep); ok && m.Learner {`, byStories},
	{"keep a join that nobody finishes", "shrink.go", `	case !m.Started:
		return remove(`, `	case m.ID == 0:
		return remove(`, byStories},
	{"keep a learner that is not wanted", "shrink.go", `if !slices.Contains(o.slots(o.Disk.Ledger.Record), m.Slot) {`, `if m.Slot == "-" {`, byStories},
	{"claim again what was given up", "rivals.go", `if unwanted := o.unwanted(); len(unwanted) > 0 {`, `if unwanted := o.unwanted(); len(unwanted) > 9 {`, byStories},
	{"only the configuration's slots", "rivals.go", `Known: o.known()}`, `Known: nil}`, byResizes},
	{"give up what is still a member's", "resize.go", `	case slices.Contains(needed, slot):
		return false`, `	case slices.Contains(o.slots(r), slot):
		return false`, byStories},
	{"give up what tells of the cluster", "resize.go", `return len(listed) > 0 && o.gone(r, o.Claim.Slot)`, `return (len(listed) > 0 || true) && o.gone(r, o.Claim.Slot)`, byStories},
	{"never give up", "resume.go", `if o.idle(r) {`, `if o.idle(r) && r.ID == "-" {`, byStories},
	{"wait for a quorum although removed", "steady.go", `case !m.HasLead && o.removedBy(m.ID) != "":`, `case !m.HasLead && o.removedBy(m.ID) == "-":`, byStories},
	{"defragment although a member is away", "upkeep.go", `		case h == nil:
			return note
`, `		case h == nil:
			_ = note
`, byUpkeep},
	{"defragment beside another", "upkeep.go", `		case h.Facts.Defragging:`, `		case h.Facts.Defragging && o.Member.Lock != nil:`, byUpkeep},
	{"a word for everybody", "upkeep.go", `	case o.Turn != "" && o.Turn != slot:`, `	case o.Turn == "-":`, byUpkeep},
	{"the word of a new leader", "upkeep.go", `	case !o.Settled:`, `	case !o.Settled && o.Turn != "":`, byUpkeep},
	{"a word for whom nothing was heard of", "upkeep.go", `case slot != o.Claim.Slot && !o.needs(slot):`, `case slot == "-":`, byWord},
	{"the leader first", "upkeep.go", `(o.Member.Leader || !h.Facts.Leader && slot < o.Claim.Slot)`, `!o.Member.Leader && slot < o.Claim.Slot`, byUpkeep},
	{"no order of followers", "upkeep.go", `!h.Facts.Leader && slot < o.Claim.Slot)`, `slot == "-")`, byStories},
	{"defragment during a backup", "upkeep.go", `if o.Member.Snapshot && o.Member.Fragmented {`, `if o.Member.Snapshot && !o.Member.Fragmented {`, byUpkeep},
	{"defragment without the lock", "upkeep.go", `if obstacle := cmp.Or(o.hinders(), o.lockedBy(), o.rests()); obstacle != "" {
		return nil, fmt.Sprintf(waits`, `if obstacle := cmp.Or(o.hinders(), o.rests()); obstacle != "" {
		return nil, fmt.Sprintf(waits`, byStories},
	{"defragment while the lock is held from before", "upkeep.go", `	return cmp.Or(o.hinders(), o.lockedBy())
}`, `	return o.hinders()
}`, byWord},
	{"defragment beside a learner", "upkeep.go", `		case i.Learner:
			return`, `		case i.Learner && o.Member.Learner:
			return`, byStories},
	{"defragment although a member is cut off", "upkeep.go", `		case m.Leader && !i.Connected && i.ID != m.ID:`, `		case m.Learner && !i.Connected && i.ID != m.ID:`, byStories},
	{"the leader is defragmented as it leads", "upkeep.go", `m.Fragmented && before == "" && m.Leader && m.Voters() > 1:`, `m.Fragmented && before == "" && m.Leader && m.Voters() > 9:`, byStories},
	{"disarm a full database", "upkeep.go", `	case m.Leader && len(full) == 0:`, `	case m.Leader && len(full) < m.Voters():`, byStories},
	{"cure what is corrupt", "upkeep.go", `	case m.alarmed(Corrupt):
		return nil, o.corrupt()
`, ``, byUpkeep},
	{"compact again and again", "upkeep.go", `return !o.Compacted && o.Member.Revision > o.Member.Compacted`, `return o.Member.Revision > 0`, byUpkeep},
	{"never compact", "upkeep.go", `return !o.Compacted && o.Member.Revision > o.Member.Compacted`, `return false`, byStories},
	{"never look at what was deleted since", "upkeep.go", `	case m.Leader && m.Revision > m.Compacted:`, `	case m.Leader && m.Revision < m.Compacted:`, byStories},
	{"a full database that shows nothing free", "upkeep.go", `j.Full && (!tried || s.InUse < u.watermark(s))`, `j.Full && s.InUse < u.watermark(s)`, byJudge},
	{"defragment again without a gain", "upkeep.go", `j.Full && (!tried || s.InUse < u.watermark(s))`, `j.Full`, byJudge},
	{"the only member as any other", "upkeep.go", `if m.Voters() == 1 {`, `if m.Voters() == 0 {`, byJudge},
	{"change the members beside a corrupt one", "steady.go", ` && (!corrupt || o.heals(a)):`, ` && (!corrupt || true):`, byStories},
	{"keep a corrupt member", "steady.go", ` && (!corrupt || o.heals(a)):`, ` && !corrupt:`, byStories},
	{"reload without the lock", "reload.go", `o.absent(), o.lockedBy()); obstacle`, `o.absent()); obstacle`, byStories},
	{"reload although a member is away", "reload.go", `o.paused(), o.absent(), o.lockedBy()`, `o.paused(), o.lockedBy()`, byStories},
	{"reload while paused", "reload.go", `o.frozen(), o.paused(), o.absent()`, `o.frozen(), o.absent()`, byReloads},
	{"reload during a restore", "reload.go", `cmp.Or(o.frozen(), o.paused()`, `cmp.Or(o.paused()`, byStories},
	{"reload only among the same minors", "reload.go", `o.frozen(), o.paused(), o.absent()`, `o.frozen(), o.halted(), o.absent()`, byStories},
	{"reload during a backup", "reload.go", `	if o.Member.Snapshot {`, `	if o.Member.Snapshot && o.Member.Fragmented {`, byStories},
	{"reload the leader first", "reload.go", `if before := o.before(func(f *Facts) bool { return f.Stale }); before != "" {`, `if before := o.before(fragmented); before != "" {`, byReloads},
	{"reload unseen", "reload.go", `cmp.Or(unconnected(seen), o.keeps())`, `cmp.Or(unconnected(nil), o.keeps())`, byReloads},
	{"reload on the word of the gossip", "reload.go", `cmp.Or(unconnected(seen), o.keeps())`, `o.keeps()`, byReloads},
	{"reload in an election", "reload.go", `	case o.Disk.Log == nil:`, `	case o.Disk.Log == nil && frozen != "":`, byReloads},
	{"never reload without a leader", "reload.go", `case !m.Stale || m.HasLead || `, `case !m.Stale || !m.HasLead || `, byReloads},
	{"reload what is removed", "reload.go", ` || o.removedBy(m.ID) != "":`, ` || o.removedBy(m.ID) == "-":`, byStories},
	{"reload without a leader during a restore", "reload.go", `	case frozen != "":
		return nil, fmt`, `	case frozen == "-":
		return nil, fmt`, byStories},
	{"defragment before a reload", "upkeep.go", `	case m.Stale:
		return o.stale()
`, `	case m.Stale && !m.Fragmented:
		return o.stale()
`, byStories},
	{"two holders stop the leader", "steady.go", `case found == nil || stronger(*f, p.Node, *found.Facts, found.Node):`, `case found != nil:
			return nil, "two"
		default:
			found = &p
		case false:`, byStories},
}

// TestMutants shows that the tests see what each guard is for: without the guard, they fail.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package once for each guard")
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			out, err := m.run(t)
			said := regexp.MustCompile(m.by.says).FindString(out)
			switch {
			case err == nil:
				t.Errorf("survived: is the guard needed?")
			case said == "":
				t.Errorf("failed, but not with %s:\n%s", m.by.says, out)
			default:
				t.Log(said)
			}
		})
	}
}

// TestMutantsApply sees at once, and without a build, that a mutant's text is no longer in step with the source.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		m.source(t)
	}
}

// source reads what the mutant changes.
func (m mutant) source(t *testing.T) string {
	src, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		t.Errorf("%s: %s has the text %d times, want once: %s", m.name, m.file, n, m.old)
	}
	return string(src)
}

// flags are the compiler's: what hardly runs is not worth being optimized.
func (t test) flags() string {
	if t == byStories {
		return "-N -l"
	}
	return ""
}

func (m mutant) run(t *testing.T) (string, error) {
	src := m.source(t)
	dir := t.TempDir()
	patched, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{path: patched}
	if m.by == byStories { // most are, and to build the simulations costs more than to tell all stories
		tests, err := filepath.Glob("*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range tests {
			if !strings.HasPrefix(file, "story") {
				replace[filepath.Join(filepath.Dir(path), file)] = ""
			}
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{patched: []byte(strings.Replace(src, m.old, m.new, 1)), overlay: list} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-gcflags="+m.by.flags(), "-overlay="+overlay, "-run=^("+m.by.name+")$", ".")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
