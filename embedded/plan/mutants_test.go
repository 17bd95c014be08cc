package plan

import (
	"testing"

	"holdfast/integration/mutanttest"
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
	byResizes    = test{"TestResizeSimulation", `(seed \d+[^\n]*)?(I\d+|R\d+|liveness): [^\n]*`}
	bySimulation = test{"TestSimulation", `(seed \d+[^\n]*)?(I\d+|R\d+|liveness): [^\n]*`}
	byFence      = test{"TestFence", `I9: [^\n]*`}
	byHopeless   = test{"TestHopeless", `hopeless: [^\n]*`}
	byCopies     = test{"TestCopies|TestCopiesStart", `(I\d+|R\d+): [^\n]*`}
	byCopied     = test{"TestCopyInAnotherSlot", `(I\d+|R\d+): [^\n]*`}
	byFirst      = test{"TestObstacle|TestContest", `(first|contest): [^\n]*`}
	byVacancy    = test{"TestStaleVacancy", `I4: [^\n]*`}
	byDismissal  = test{"TestFalseDismissal", `I4: [^\n]*`}
	byFoundings  = test{"TestFoundings", `I2: [^\n]*`}
	bySurvey     = test{"TestSurvey|TestSurveyBehind", `survey: [^\n]*`}
	byLocks      = test{"TestLockSimulation", `L\d: [^\n]*`}
	byDisruption = test{"TestDisruption|TestHaste", `got [^\n]*`}
	byLeaving    = test{"TestLeaving", `got [^\n]*`}
	byBeat       = test{"TestBeat", `beat: [^\n]*`}
	byUpkeep     = test{"TestUpkeep", `(U\d|liveness): [^\n]*`}
	byReloads    = test{"TestReloadSimulation", `(L\d|liveness): [^\n]*`}
	byJudge      = test{"TestJudge", `upkeep_test.go:\d+: [^\n]*`}
	byReserve    = test{"TestReserve", `short before: [^\n]*`}
	byResting    = test{"TestRestingComesBeforeNobody", `resting: [^\n]*`}
	byObject     = test{"TestObject", `object: [^\n]*`}
	byConflicts  = test{"TestConflicts", `conflicts: [^\n]*`}
	byPermit     = test{"TestPermit", `the answer is [^\n]*`}
	byFacts      = test{"TestFactsOfStalledLeader", `stalled: [^\n]*`}
	byWithdrawn  = test{"TestWithdrawn", `withdrawn: [^\n]*`}
	byOutlived   = test{"TestOutlived", `outlived_test.go:\d+: [^\n]*`}
	byRollbacks  = test{"TestRollbackSimulation", `(I\d+|R\d+|liveness): [^\n]*`}
	byQuiet      = test{"TestQuiet", `rollback_test.go:\d+: [^\n]*`}
	byMissing    = test{"TestMissingDiskIsNotOffered", `founding_test.go:\d+: [^\n]*`}
	byAdoptions  = test{"TestAdoptionSimulation", `(seed \d+[^\n]*)?(A\d|I\d+|R\d+|liveness): [^\n]*`}
	bySight      = test{"TestSight", `sim_adopt_test.go:\d+: [^\n]*`}
	bySeen       = test{"TestReturning|TestAdoptedSeen|TestAdoptedAlike|TestForbidden", `adopt_test[^\n]*`}
	byHolders    = test{"TestHoldersNameFounders", `holders: [^\n]*`}
	byBallot     = test{"TestBallot", `ballot: [^\n]*`}
	bySilences   = test{"TestSilences|TestSilencesOfAnHour", `silences: [^\n]*`}
	byValid      = test{"Test(Record|Ledger|Facts|Adopted)Valid", `want an error with[^\n]*`}
	bySecures    = test{"TestSecureSimulation", `(seed \d+[^\n]*)?(I\d+|R\d+|liveness): [^\n]*`}
	bySchemes    = test{"TestJoinBetweenSchemes|TestSecuredEnds", `secure_test.go:\d+: [^\n]*`}
	byStories    = test{"TestStories", `story:[^$]*want: [^\n]*`} // what random lives meet too rarely, or another guard catches
)

var mutants = []mutant{
	{"free abandon", "founding.go", `obstacle := o.movable(target); obstacle.Text != ""`, `obstacle := o.movable(target); obstacle.Text == "-"`, byFoundings},
	{"majority of the last charter only", "founding.go", `for _, p := range promises {
		if !to.keepsMajority`, `for _, p := range promises[len(promises)-1:] {
		if !to.keepsMajority`, byFoundings},
	{"newer only", "founding.go", `if !to.keepsMajority(p) {`, `if false && !to.keepsMajority(p) {`, byFoundings},
	{"majority only", "founding.go", `if !to.newer(promises[len(promises)-1]) {`, `if false && !to.newer(promises[len(promises)-1]) {`, byStories},
	{"a rival that has promised blocks a founding", "founding.go", `case o.mayStay(rival.facts):`, `case false:`, bySimulation},
	{"found while hosts take slots", "founding.go", `if o.taking() {
		return wait("every slot`, `if false {
		return wait("every slot`, byStories},
	{"join while hosts take slots", "founding.go", `if o.taking() { // once`, `if false { // once`, byStories},
	{"found beside a rival that will move", "founding.go", `				rivals = append(rivals, rival)
`, `				rivals = append(rivals, rival)
			case rival.facts.Promise == nil:
`, byStories},
	{"found beside a founding that may be complete", "founding.go", `if !target.keepsMajority(*rival.facts.Promise) {`, `if false && !target.keepsMajority(*rival.facts.Promise) {`, byStories},
	{"found beside a second fixed holder", "founding.go", `return o.Config.Yields && f.Phase == PhaseBlank && f.Promise`, `return f.Phase == PhaseBlank && f.Promise`, byStories},
	{"keep a promise that is moot", "rivals.go", `case pristine || o.moot():`, `case pristine:`, byStories},
	{"a promise is moot without a leader", "rivals.go", `case known != nil && o.leader(known) != nil:`, `case known != nil:`, byStories},
	{"a store that not all share makes a promise moot", "rivals.go", `if shared, unknown := founding(o).shared(nil); !shared || unknown != "" {`, `if _, unknown := founding(o).shared(nil); unknown != "" {`, byStories},
	{"another store's founding makes a promise moot", "rivals.go", `case o.Store.Record == nil || known != nil && known.ID != o.Store.Record.ID:`, `case o.Store.Record == nil:`, byStories},
	{"the store's founding comes after a name", "rivals.go", `o.Store.Record != nil && o.Store.Record.ID == founding || `, ``, byStories},
	{"an accepted founding comes after a name", "rivals.go", `p.Facts.Record != nil && p.Facts.Record.ID == founding`, `false`, byStories},
	{"a promise is moot with what was prepared", "rivals.go", `|| o.Disk.Ledger.Prepared != nil || o.Disk.Built != "" {`, `{`, byStories},
	{"a founder's promise is moot", "rivals.go", `return !slices.ContainsFunc(known.Charter.Seats, func(s Seat) bool { return s.Disk == o.Claim.Disk })`, `return true`, byStories},
	{"found with a missing holder", "founding.go", `if len(missing) > 0 {`, `if len(missing) > len(o.Config.Slots)/2 {`, bySimulation},
	{"ignore the store", "founding.go", "	shared = true\n", "	shared = false\n", bySimulation},
	{"promise beside etcd-manager", "founding.go", `if o.Store.Managed != "" {`, `if o.Store.Managed == "-" {`, byStories},
	{"commit beside etcd-manager", "founding.go", `case o.Store.Managed != "":`, `case o.Store.Managed == "-":`, byStories},
	{"promise against a witness", "founding.go", `if why := o.witness(mine); why != "" {`, `if why := o.witness(mine); why == "-" {`, byStories},
	{"commit against a witness", "founding.go", `case o.witness(&c) != "":`, `case o.witness(&c) == "-":`, byStories},
	{"a witness of what is known", "founding.go", `known := own != nil && FoundingRecord(*own).Token() == w.Token`, `known := false`, byStories},
	{"ignore lost peers", "knowledge.go", `p.Facts.Record == nil || o.stillborn(p.Facts.Record) {`, `p.Facts.Record == nil || !p.Live {`, byStories},
	{"found beside a cluster", "founding.go", "	case known != nil:\n", "	case known != nil && known.ID == \"-\":\n", bySimulation},
	{"found with a disk that is not blank", "founding.go", `case f.Phase != PhaseBlank:`, `case f.Phase == PhaseNone:`, byStories},
	{"commit without all promises", "founding.go", `o.promised(c, c.equal) == len(c.Seats)`, `o.promised(c, c.equal) > 0`, bySimulation},
	{"commit to an older promise", "founding.go", `known.ID == FoundingRecord(*me.Promise).ID:
		return o.commit(*me.Promise,`, `slices.ContainsFunc(o.Disk.Ledger.Promises, func(c Charter) bool { return known.ID == FoundingRecord(c).ID }):
		return o.commit(known.Charter,`, byFoundings},
	{"commit on the disk before the store", "sim_act_test.go", `[]func(){func() { n.mirror(a) }, write, tell}`, `[]func(){write, func() { n.mirror(a) }, tell}`, bySimulation},
	{"forget promises", "ledger.go", `l.Promises = append(slices.Clone(l.Promises), *a.Charter)`, `l.Promises = append(slices.Clone(l.Promises[:0]), *a.Charter)`, bySimulation},
	{"charters never follow", "founding.go", `c.follow(p)`, `_ = p`, bySimulation},
	{"charters never merge", "founding.go", `m = agreed.merge(p)`, `m = p`, bySimulation},
	{"start as founder again", "resume.go", `case l.Started != "" || l.Role`, `case l.Role`, bySimulation},
	{"start as founder although replaced", "resume.go", `case o.replacedAs(r) != "":`, `case o.replacedAs(r) == "-":`, byStories},
	{"resume although removed", "next.go", `!o.changing() && o.dismissedBy(o.Disk.Member) != "":`, `o.dismissedBy(o.Disk.Member) == "-":`, byStories},
	{"join although removed", "resume.go", `if by := o.removedBy(id); by != "" {`, `if by := o.removedBy(id); by == "-" {`, byStories},
	{"accept another disk's admission", "resume.go", `if ad.Disk == o.Claim.Disk && ad.Slot == o.Claim.Slot`, `if ad.Slot == o.Claim.Slot`, byStories},
	{"accept an old admission", "resume.go", ` && o.removedBy(ad.ID) == "" {`, ` {`, byStories},
	{"accept an admission of a generation before", "resume.go", ` && listed && !spent && `, ` && (listed || true) && !spent && `, byStories},
	{"accept an admission twice", "resume.go", ` && listed && !spent && `, ` && listed && (!spent || true) && `, byStories},
	{"wait for a learner that lost its log", "steady.go", ` && f.Join != ad.ID {`, ` {`, byStories},
	{"keep another's admission", "resume.go", `l.Role == RoleJoiner && l.Join != d.Member`, `l.Role == "-"`, byStories},
	{"ignore rivals", "next.go", `if a := claiming(o).rivalry(); a.Kind != "" {`, `if a := claiming(o).rivalry(); a.Kind == "-" {`, bySimulation},
	{"yield what is not blank", "rivals.go", `case pristine || o.moot():`, `case o.Config.Yields:`, bySimulation},
	{"a running rival comes before yielding", "rivals.go", `case pristine || o.moot():`, `case pristine && !f.Running:`, byStories},
	{"claim the slot of foreign data", "rivals.go", `for _, slot := range o.Foreign() {`, `for _, slot := range o.Foreign()[:0] {`, byStories},
	{"keep the slot of foreign data", "rivals.go", `pristine && slices.Contains(o.Foreign(), me.Slot)`, `false && slices.Contains(o.Foreign(), me.Slot)`, byStories},
	{"foreign data is worth nothing", "rivals.go", `case f.Foreign:`, `case f.Foreign && false:`, byStories},
	{"tell nobody of foreign data", "facts.go", `o.Disk.Origin != nil && l.Record == nil`, `false`, byStories},
	{"take the slot of a lost member", "rivals.go", `case f.past():`, `case f.past() && p.Live:`, byStories},
	{"all take the first slot", "rivals.go", `p.Node < o.Node {`, `p.Node == o.Node {`, byStories},
	{"leave slots to who comes later", "rivals.go", `p.Node < o.Node {`, `p.Node != o.Node {`, byStories},
	{"leave slots to who has one", "rivals.go", `p.Facts.Slot == "" && p.Node < o.Node`, `p.Node < o.Node`, byStories},
	{"leave the last slot", "rivals.go", `if len(free) > 1 && p.Facts`, `if len(free) > 0 && p.Facts`, byStories},
	{"forget who held a slot", "rivals.go", `if node != o.Node {`, `if node == "-" {`, byStories},
	{"found in the place of a missing disk", "next.go", `case o.missesDisk():`, `case false:`, byStories},
	{"another disk's data is missing as well", "facts.go", ` && o.Disk.Ledger.Record == nil && !o.Disk.WAL`, ` && !o.Disk.WAL`, byMissing},
	{"a log without a ledger is missing as well", "facts.go", ` && o.Disk.Ledger.Record == nil && !o.Disk.WAL`, ` && o.Disk.Ledger.Record == nil`, byStories},
	{"offer a blank disk in the place of a missing one", "facts.go", ` || o.missesDisk():`, `:`, byMissing},
	{"start beside a twin", "next.go", `case o.Twin != "" && !o.Member.Running:`, `case o.Twin == "-":`, byStories},
	{"a founder has no name before it accepts", "address.go", `!f.of(record) && !f.founds(record)`, `!f.of(record)`, byHolders},
	{"a founder of anything has the name", "address.go", `		f.Promise.equal(r.Charter)`, `		f.Promise != nil`, byHolders},
	{"any disk has a founder's name", "address.go", `seat.Disk == f.Disk &&`, `seat.Slot == f.Slot &&`, byHolders},
	{"who accepted another has a founder's name", "address.go", `f.Record == nil && f.Promise != nil`, `f.Promise != nil`, byHolders},
	{"listen for a copy of what was founded just now", "next.go", `!o.Disk.Fresh && !o.heardAll():`, `!o.heardAll():`, byStories},
	{"resume before listening", "next.go", `case o.Early && `, `case false && o.Early && `, byStories},
	{"repair with any record", "resume.go", ` && f.CID == o.Disk.ClusterID {`, ` {`, bySimulation},
	{"replace without asking the holder", "sim_act_test.go", `func() { n.confirm(a) }, `, ``, byVacancy},
	{"replace without a quorum", "steady.go", `	case q.healthy <= q.voters/2: // of all voters, hence also of the remaining ones`, `	case q.healthy < 0:`, bySimulation},
	{"promote without a quorum", "steady.go", `	case q.healthy <= q.voters/2:
		return wait("slot %s waits to be promoted`, `	case q.healthy < 0:
		return wait("slot %s waits to be promoted`, byStories},
	{"promote a learner that is not connected", "steady.go", `	case !m.Connected:
		return wait("learner %x`, `	case q.healthy < 0:
		return wait("learner %x`, byStories},
	{"promote a learner that lags", "steady.go", `case !o.Member.InSync(m):`, `case false:`, byStories},
	{"anyone who claims a copy proves the original's holder gone", "mesh.go", `by.Lock == f.Lock && by.Disk == f.Disk`, `by.Disk == f.Disk`, byStories},
	{"a lock without a name proves a holder gone", "mesh.go", `f != nil && f.Lock != "" && by`, `f != nil && by`, byStories},
	{"an earlier claim proves a later holder gone", "mesh.go", ` && by.Epoch > f.Epoch`, ` && by.Epoch != f.Epoch`, byStories},
	{"start without asking who holds the same disk", "sim_act_test.go", `n.timely, n.askRivals, `, `n.timely, `, byCopies},
	{"ask only who was heard to hold the disk", "contest.go", `		nodes = append(nodes, p.Node)
`, `		if p.Facts != nil && obs.same(p.Facts) {
			nodes = append(nodes, p.Node)
		}
`, byCopies},
	{"ask nobody who was heard to hold another disk", "contest.go", `		nodes = append(nodes, p.Node)
`, `		if f := p.Facts; c.askers[p.Node].same(c.ours) || f == nil || f.Disk == "" || obs.same(f) {
			nodes = append(nodes, p.Node)
		}
`, byCopies},
	{"ask only holders of the same disk", "contest.go", ` || c.Member != 0 && c.Member == d.Member`, ``, byCopies},
	{"start although asked meanwhile", "contest.go", `c.begun = !c.asked`, `c.begun = true`, byFirst},
	{"give way to nobody and say nothing", "contest.go", `	return c.begun
}

// Forget`, `	return false
}

// Forget`, byFirst},
	{"any answer lets it start", "contest.go", `; rival.Kind != "" {
		return rival.Text()`, `; rival.Kind == "-" {
		return rival.Text()`, byCopies},
	{"whose lock we have is gone although it answers", "contest.go", `f.Lock = ""`, `_ = f`, byCopies},
	{"start before the other can ask in turn", "contest.go", `			if a.Deaf {`, `			if a.Deaf && false {`, byFirst},
	{"silence lets it start", "contest.go", `case a.Facts == nil && (p.Facts != nil && obs.same(p.Facts) || c.askers[p.Node].same(c.ours)):`, `case a.Facts == nil && p.Node == "-":`, byFirst},
	{"anyone who is silent holds it up", "contest.go", `case a.Facts == nil && (p.Facts != nil && obs.same(p.Facts) || c.askers[p.Node].same(c.ours)):`, `case a.Facts == nil:`, byFirst},
	{"silence of one that has asked lets it start", "contest.go", ` || c.askers[p.Node].same(c.ours)):`, `):`, byFirst},
	{"start beside a twin that was heard since", "contest.go", `if obs.Twin != "" {`, `if obs.Twin == "-" {`, byFirst},
	{"start another slot's data", "next.go", `case resuming(o).otherMember() != "":`, `case resuming(o).otherMember() == "-":`, byCopied},
	{"a lost node says whose data it is", "resume.go", `for _, p := range o.live() {
		if p.Facts == nil || !p.Facts.Running`, `for _, p := range o.Peers {
		if p.Facts == nil || !p.Facts.Running`, byStories},
	{"the data is of a slot that there is not", "resume.go", `of(m.Slot, m.ID) && slices.Contains(o.slots(r), m.Slot)`, `of(m.Slot, m.ID)`, byStories},
	{"a founder's disk with anybody's data", "resume.go", `d.Founder != 0 && d.Founder != d.Member`, `d.Founder == 0 && d.Founder != d.Member`, byStories},
	{"who runs our member in another slot is no rival", "rivals.go", `f.Running && o.same(f)`, `f.Running && o.same(&Facts{})`, byStories},
	{"a refusal is silence", "contest.go", `case !asked || a.Gone:`, `case !asked:`, byFirst},
	{"who asked and is not heard yet counts as nobody", "contest.go", `			c.asked = c.asked || c.ours.same(about)
			c.Forget`, `			c.asked = c.asked || about.Disk == "-"
			c.Forget`, byFirst},
	{"a holder of another generation is a rival", "contest.go", `ours != nil && f.Record != nil && f.Record.ID != ours.ID`, `ours != nil && f.Record != nil && f.Record.ID == "-"`, byFirst},
	{"who asks for another disk holds it up", "contest.go", `	c.asked = c.asked || c.ours.same(about)
	return`, `	c.asked = true
	return`, byFirst},
	{"anyone who claims a copy starts it", "mesh.go", `by.Lock == f.Lock && by.Disk == f.Disk`, `(by.Lock == f.Lock || by.Disk == f.Disk)`, byCopies},
	{"a lost node's claim silences a holder", "mesh.go", `p.Live && p.Facts != nil && p.Facts.Running {
			claims`, `p.Facts != nil && p.Facts.Running {
			claims`, byStories},
	{"a claim proves before its member runs", "mesh.go", `p.Live && p.Facts != nil && p.Facts.Running {
			claims`, `p.Live && p.Facts != nil {
			claims`, byStories},
	{"lead with a disk that stalls", "steady.go", `if m.Stalled && !m.Defragging {`, `if m.Stalled && m.Defragging {`, byStories},
	{"stalled while it is defragmented", "steady.go", `if m.Stalled && !m.Defragging {`, `if m.Stalled {`, byStories},
	{"tell others of a leader that is stalled", "facts.go", `o.Member.Leader && !o.Member.Stalled, removed`, `o.Member.Leader, removed`, byFacts},
	{"replace a connected member", "steady.go", `	case m.Connected:
		return wait("slot %s has no data`, `	case q.healthy < 0:
		return wait("slot %s has no data`, byStories},
	{"admit a node that is drained", "steady.go", `case f.Drained && !m.Connected:`, `case f.Drained && f.Running:`, byStories},
	{"replace a disk with data", "steady.go", `case f.Phase == PhaseVacant:`, `case f.Phase == PhaseVacant || f.Phase == PhaseData && !m.Connected:`, byStories},
	{"never heed a stillborn founding", "knowledge.go", `moved) > len(r.Charter.Seats)/2`, `moved) > len(r.Charter.Seats)`, byStories},
	{"stillborn after one move", "knowledge.go", `moved) > len(r.Charter.Seats)/2`, `moved) > 0`, byStories},
	{"resume in an older generation", "resume.go", `	case next != nil:`, `	case next != nil && next.ID == "-":`, byStories},
	{"serve on in an older generation", "steady.go", `if next, _, _ := succession(o).ended(); next != nil {`, `if next, _, _ := succession(o).ended(); next != nil && o.Member.Leader {`, bySimulation},
	{"the store is no evidence of a generation", "knowledge.go", `	case r.descends(best):
		best = r
	default:
		return nil, fmt.Sprintf("the cluster continued`, `	case r.descends(best):
	default:
		return nil, fmt.Sprintf("the cluster continued`, byStories},
	{"no way out where no disk has data", "founding.go", `if s := o.Store; s.Unknown`, `if s := o.Store; true || s.Unknown`, byStories},
	{"restore beside a disk with data", "founding.go", `p.Facts == nil || !slices.Contains([]Phase{`, `p.Facts == nil || false && !slices.Contains([]Phase{`, byStories},
	{"two generations of one number", "knowledge.go", `	case r.ID == best.ID || best.descends(r):
		default:`, `	case r.ID == best.ID || best.descends(r) || r.Lineage() == best.Lineage():
		default:`, byStories},
	{"consent to what can never be concluded", "fence.go", `case p.Led != nil && (p.Survivor != "" || f.safe(0)):`, `case p.Led != nil:`, byHopeless},
	{"any majority concludes", "fence.go", `return f.voters-max(0, f.need-free) < f.voters/2+1`, `return true`, byFence},
	{"any disk gets a seat", "fence.go", `s.free = !s.anchored && (heir || lost && (known || h.facts.Record == nil && s.prepared))`, `s.free, s.anchored = false, true`, byFence},
	{"a disputed slot gets a seat", "fence.go", `h != nil && !disputed {`, `h != nil {`, byStories},
	{"conclude before a majority has prepared", "fence.go", `case ready >= f.need && (dead || f.safe(free)):`, `case ready > 0 && (dead || f.safe(free)):`, byStories},
	{"a replacement gets a seat", "fence.go", ` && h.facts.Member == s.member && `, ` && `, byFence},
	{"accept the record and let the old member run", "sim_restore_test.go", `n.todo = []func(){stop, write, tell}`, `n.todo = []func(){write, tell}`, bySimulation},
	{"enter although the record knew too little", "generation.go", `case r.Restore != nil && seat.Disk == o.Claim.Disk && o.supplanted(r) == "":`, `case r.Restore != nil && seat.Disk == o.Claim.Disk:`, byStories},
	{"enter without any memory", "founding.go", `case known != nil && o.prepared(known.ID):`, `case known != nil && known.Restore != nil:`, byStories},
	{"found a restored generation without its data", "facts.go", `	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == ""`, `	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == "" && (o.Disk.WAL || o.Disk.Built != "")`, byStories},
	{"swap before it is prepared", "generation.go", `	case swapped || o.prepared(r.ID):`, `	case swapped || o.Disk.Built == r.ID:`, bySimulation},
	{"swap although replaced", "generation.go", `	case resuming(o).replacedAs(r) != "":`, `	case resuming(o).replacedAs(r) == "-":`, byStories},
	{"swap again", "generation.go", `	case swapped || o.prepared(r.ID):`, `	case swapped && o.prepared(r.ID) || o.prepared(r.ID):`, byStories},
	{"a founder that cannot prepare waits forever", "generation.go", `	case obstacle != "" && o.leader(r) != nil:`, `	case obstacle == "-":`, byStories},
	{"a founder that cannot prepare leaves before there is a leader", "generation.go", `	case obstacle != "" && o.leader(r) != nil:`, `	case obstacle != "":`, byStories},
	{"a founder gives its seat up before the store was asked", "generation.go", `	case o.Starting:`, `	case o.Starting && slot == "":`, byStories},
	{"the ledger after a swap", "ledger.go", `l.Started, l.Prepared = disk, nil`, `l.Prepared = nil`, bySimulation},
	{"prepare what a strange store proposes", "restoring.go", ` || o.otherStore() != "" {
		return nil
	}
	return s.Restore`, ` {
		return nil
	}
	return s.Restore`, byStories},
	{"start what was declared lost", "resume.go", `(o.Alone || slices.Contains(p.Lost, o.Claim.Slot)) {`, `o.Alone {`, byStories},
	{"change members during a restore", "steady.go", `case next.acts() && (held == "" ||`, `case next.acts() && (held != "-" ||`, byStories},
	{"promote during a restore", "steady.go", `frozen == "" && next.Kind == Promote)`, `next.Kind == Promote)`, byStories},
	{"change members during a pause", "pause.go", `if p == nil {`, `if p == nil || p.By != "" {`, bySimulation},
	{"a pause of the backup's time", "outlived.go", `p.Record == r.ID || r.Cause == Recovered`, `p.Record != r.ID || r.Cause == Recovered`, byOutlived},
	{"a pause that a restore began without", "outlived.go", `r.Cause == Recovered && slices`, `slices`, byOutlived},
	{"a recovery takes an operator's pause back", "outlived.go", ` || r.Cause == Recovered && slices.Contains(r.Line, p.Record)`, ` || r.Cause == Recovered && slices.Contains(r.Line[:0], p.Record)`, byOutlived},
	{"a lock of the backup's time", "outlived.go", `l.Record == "" || l.Record == r.ID }`, `l.Record != "-" }`, byOutlived},
	{"leave a learner to itself during a pause", "steady.go", `frozen == "" && next.Kind == Promote) &&`, `false) &&`, byStories},
	{"change members where others know of a restore", "restoring.go", `if o.Store.Unknown != "" && f != nil && f.Restore != ""`, `if o.Store.Unknown == "-" && f != nil && f.Restore != ""`, byStories},
	{"discard what an unknown store may want", "restoring.go", `case s.Unknown != "" || s.Record == nil:`, `case s.Unknown != "":
		return Action{Kind: Discard, Why: "unknown"}
	case s.Record == nil:`, byStories},
	{"discard against a store that knows less", "restoring.go", `case s.Unknown != "" || s.Record == nil:
		return Action{}`, `case s.Unknown != "":
		return Action{}
	case s.Record == nil:`, byStories},
	{"never discard", "restoring.go", `	if d := o.discard(); d.acts() {`, `	if d := o.discard(); d.Kind == "-" {`, byStories},
	{"everyone proposes", "restoring.go", `		return o.Member.Leader
	}`, `		return true
	}`, byStories},
	{"a bad command again and again", "restoring.go", `		case why.Text != "":`, `		case why.Text == "-":`, byStories},
	{"a foreign command unasked", "restoring.go", `	if !obs.Config.Foreign && q.Backup != "" {`, `	if !obs.Config.Foreign && q.Backup == "-" {`, byStories},
	{"propose while they elect", "restoring.go", `if !o.Leaderless && (`, `if false && (`, byStories},
	{"delete a foreign command unasked", "restoring.go", `r.Over && o.Config.Foreign && o.proposes(known)`, `r.Over && o.proposes(known)`, byStories},
	{"everyone deletes a command", "restoring.go", `r.Over && o.Config.Foreign && o.proposes(known)`, `r.Over && o.Config.Foreign`, byStories},
	{"a command that has had its chance stays", "restoring.go", `r.Over && o.Config.Foreign && o.proposes(known)`, `r.Over && o.Config.Never`, byStories},
	{"restore by itself although a volume is elsewhere", "founding.go", `		obstacle = o.witness(nil)`, `		obstacle = ""`, byStories},
	{"restore by itself into other slots", "founding.go", `case obstacle == "" && !slices.Equal(r.Charter.Slots(), o.Config.Slots):`, `case obstacle == "-":`, byStories},
	{"restore by itself beside a founder", "founding.go", `	case o.promisedBy(r) != "":`, `	case o.promisedBy(r) == "-":`, byStories},
	{"restore by itself unasked", "founding.go", `	if !o.Config.Automatic || !shared {`, `	if o.Config.Never {`, byStories},
	{"mirror over a strange cluster", "steady.go", `case s.Record == nil || mine.descends(s.Record):`, `case s.Record == nil || mine.ID != s.Record.ID:`, byStories},
	{"data of the parent as the child's", "facts.go", `if !o.changing() { // else`, `if true { // else`, bySimulation},
	{"the longest log, whatever its term", "survey.go", `return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index`, `return l.Index > m.Index`, byStories},
	{"the highest term, whatever its length", "survey.go", `return l.Term > m.Term || l.Term == m.Term && l.Index > m.Index`, `return l.Term > m.Term`, byStories},
	{"recover without all that are lost declared", "survey.go", `	if len(missing) > 0 {`, `	if len(missing) > len(s.Slots) {`, byStories},
	{"recover from a log that another survivor's exceeds", "survey.go", `case v.Voter && v.Here && v.beyond(chosen) &&`, `case v.Voter && v.Here && v.beyond(v) &&`, byStories},
	{"recover where the rest could have a majority", "recover.go", `if f := fencing(o).fence(old, p); !f.deserted() {`, `if f := fencing(o).fence(old, p); !f.deserted() && f.need < 0 {`, byStories},
	{"recover beside a leader", "survey.go", `		case f.Leader:`, `		case f.Leader && f.Log != nil:`, byStories},
	{"recover beside a follower", "survey.go", `		case f.Log == nil:`, `		case f.Log == nil && f.Leader:`, byStories},
	{"recover although the lost are back", "survey.go", `case slices.Contains(lost, v.Slot) && v.Here && !v.Left:`, `case slices.Contains(lost, v.Slot) && v.Here && v.Left:`, byStories},
	{"a recovery has many founders", "charter.go", `r.Restore != nil && r.Cause == Recovered {`, `r.Cause == "-" {`, bySimulation},
	{"a recovery seats whoever is here", "recover.go", `		if v.Slot == p.Survivor {
			made.Disk,`, `		if made.Disk = v.Disk; v.Slot == p.Survivor {
			made.Disk,`, bySimulation},
	{"swap what was copied before the log grew", "generation.go", `	case whole && (!d.WAL || d.Log != nil && *d.Log == *d.Ledger.Prepared.Log):`, `	case whole:`, byStories},
	{"a learner survives", "survey.go", `if v.Voter && v.Here && v.Runs && !v.Dropped && (best < 0`, `if v.Here && v.Runs && !v.Dropped && (best < 0`, byStories},
	{"recover by itself without proof", "recover.go", `	case len(unproven) > 0:`, `	case len(unproven) > len(survey.Slots):`, byStories},
	{"recover by itself because the slot has a blank disk", "fence.go", `(founded || f.Join == member)`, `(founded || f.Phase != PhaseNone)`, byStories},
	{"the disk of a founder long replaced", "fence.go", ` && o.Disk.Founders[f.Slot] == member`, ``, byStories},
	{"recover by itself while paused", "recover.go", `	case o.paused() != "":`, `	case o.paused() == "-":`, byStories},
	{"recover by itself from less than a backup holds", "recover.go", `richer.Text != "" && chosen.Disk == o.Claim.Disk {`, `richer.Text == "-" && chosen.Disk == o.Claim.Disk {`, byStories},
	{"weigh another survivor's backup by our own data", "recover.go", `richer.Text != "" && chosen.Disk == o.Claim.Disk {`, `richer.Text != "" {`, byStories},
	{"recover by itself although no backup was asked for", "newest.go", `return "the store has not been asked for the newest backup yet"`, `return ""`, byStories},
	{"recover by itself although the backups are not known", "newest.go", `return "the newest backup is not known: " + s.Unknown`, `return ""`, byStories},
	{"weigh without the unknown", "recover.go", `	case o.backupUnknown() != "":`, `	case o.backupUnknown() == "-":`, byStories},
	{"a backup of a later generation by its revision", "newest.go", `cmp.Or(cmp.Compare(s.Generation, generation), cmp.Compare(s.Revision, revision)) > 0`, `cmp.Compare(s.Revision, revision) > 0`, byStories},
	{"a backup of the same generation holds no more", "newest.go", `cmp.Or(cmp.Compare(s.Generation, generation), cmp.Compare(s.Revision, revision)) > 0`, `cmp.Compare(s.Generation, generation) > 0`, byStories},
	{"recover beside data that nobody has looked at", "survey.go", `v.Idle && !v.Here {`, `v.Idle && v.Here {`, bySurvey},
	{"recover although a drained member would do", "survey.go", `if !s.Majority() || idle == "" {`,
		`if idle != "" || s.Majority() {`, bySurvey},
	{"recover into a store that is not all's", "survey.go", `	if n := o.otherStore(); n != "" {`, `	if n := o.otherStore(); n == "-" {`, bySurvey},
	{"instead of the present generation's log", "ending.go", `if f != nil && f.of(o.Disk.Ledger.Record) && f.Phase == PhaseData &&`, `if f != nil && f.Phase == PhaseData &&`, bySurvey},
	{"instead of a longer log", "ending.go", `f.Log.after(*o.Disk.Log) {`, `f.Log.after(*f.Log) {`, bySurvey},
	{"another store soon is ours", "survey.go", `s.Soon = o.presumed().otherStore() == ""`, `s.Soon = true`, bySurvey},
	{"nobody votes who is not seen", "fence.go", `if o.leader(old) == nil && !o.Member.Leader {`, `if false {`, byStories},
	{"a leader's list may be old", "fence.go", `if o.leader(old) == nil && !o.Member.Leader {`, `if o.Node != "" {`, byStories},
	{"the dropped do not vote any more", "fence.go", `may = slices.Concat(may, set.From, f.slots)`, `may = slices.Concat(may, f.slots)`, byStories},
	{"the lost who were added unheard have no vote", "fence.go", `			f.learners++
		default:`, `		default:`, byStories},
	{"an operator's word is proof", "fence.go", `f.proven += boolean(out)`, `f.proven += boolean(out || lost)`, byStories},
	{"nobody's word counts, even of all", "fence.go", ` || f.out >= f.voters`, ``, byStories},
	{"who was named lost has stopped, in the eyes of a leader", "fence.go", `max(0, f.need-free) < f.voters/2+1`, `max(0, f.need-free)-boolean(free > 0) < f.voters/2+1`, byFence},
	{"nobody was added unheard", "survey.go", `v.Voter = v.Voter || o.unheardOf(known, slot, s.lists)`, `v.Voter = v.Voter || slot == "-"`, byStories},
	{"continue from whom nobody may have told of the removal", "survey.go", ` && !v.Dropped && (best < 0`, ` && (best < 0`, byStories},
	{"give up a disk that takes part in a restore", "restoring.go", `return p != nil && slices.Contains(p.founders(o.Store.Record)`, `return p != nil && p.ID == "" && slices.Contains(p.founders(o.Store.Record)`, byStories},
	{"never promote", "steady.go", `case listed && m.Learner && f.Running && f.Member == m.ID:`, `case listed && m.Learner && f.Running && f.Member == 0:`, bySimulation},
	{"start on unfit data", "resume.go", `if d.Unfit != "" {`, `if d.Unfit == "-" {`, byStories},
	{"set nothing aside that is unfit", "next.go", `o.Disk.Ledger.Record != nil && !o.changing() && o.dismissedBy`, `o.Disk.Ledger.Record != nil && o.Disk.Unfit == "" && !o.changing() && o.dismissedBy`, byStories},
	{"start an older etcd than the cluster's", "resume.go", `	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := r.`, `	if why := o.tooOld(r); why.Text == "-" {
		return wait("%s", why)
	}
	peers := r.`, byStories},
	{"start with other host names", "scheme.go", `case was == is && wasHost == isHost, secure`, `case was == is && wasHost != "-" && isHost != "-", secure`, byStories},
	{"heed the port of a peer URL", "scheme.go", `rest = rest[:i]`, `_ = i`, byStories},
	{"found with the other scheme", "resume.go", `case o.urlConflict(r) != "":`, `case o.urlConflict(r) == "-":`, byStories},
	{"resume with the other scheme", "resume.go", `	if why := o.urlConflict(r); why != "" {
		return wait("%s", why)
	}
	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := r.`, `	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := r.`, byStories},
	{"join with the other scheme", "resume.go", `	if why := o.urlConflict(r); why != "" {
		return wait("%s", why)
	}
	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := map`, `	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := map`, byStories},
	{"join with an older etcd than the cluster's", "resume.go", `	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := map`, `	if why := o.tooOld(r); why.Text == "-" {
		return wait("%s", why)
	}
	peers := map`, byStories},
	{"heed the version of a member that does not run", "versions.go", `f == nil || !f.Running || !f.of(r) || !Older`, `f == nil || !f.of(r) || !Older`, byStories},
	{"heed the version of another generation", "versions.go", `!f.of(r) || !Older`, `f.Record == nil || !Older`, byStories},
	{"compare minors as text", "versions.go", `return one && two && x.Older(y)`, `return one && two && x != y && cmp.Less(a, b)`, byStories},
	{"change members while minors differ", "versions.go", `if Older(f.Etcd, o.Config.Etcd) || Older(o.Config.Etcd, f.Etcd) {`, `if Older(o.Config.Etcd, f.Etcd) {`, byStories},
	{"freeze for a learner's minor", "versions.go", ` || !o.voter(f.Member) {`, ` {`, byStories},
	{"admit what cannot join", "steady.go", `case Older(f.Etcd, o.Member.ClusterVersion):`, `case f.Etcd == "-":`, byStories},
	{"go down although it leaves no majority", "disruption.go", `need := voters/2 + 1`, `need := voters / 2`, byLocks},
	{"go down although another has the lock", "sim_lock_test.go", `l != nil && (l.Slot != n.disk.slot || l.Node != n.name) || `, `l != nil && l.Node == "-" || `, byLocks},
	{"start although drained", "next.go", `case o.Drained && !o.Member.Running:`, `case o.Drained && o.Member.Removed:`, byLocks},
	{"never give the lock back", "disruption.go", `	if !o.hasLock() {`, `	if o.Claim.Held {`, byLocks},
	{"judge without asking for the lock", "disruption.go", `case o.lockedBy() != "":`, `case o.lockedBy() == "-":`, byDisruption},
	{"campaign as a learner", "campaign.go", `case !c.Running || !c.Voter:`, `case !c.Running:`, byBallot},
	{"campaign while draining", "campaign.go", `	case c.Departing:`, `	case c.Departing && c.Ending:`, byBallot},
	{"campaign after it left", "campaign.go", `	case c.Ending:`, `	case c.Ending && c.Departing:`, byBallot},
	{"campaign although a leader is heard", "campaign.go", `	case c.heard():`, `	case c.heard() && c.Ending:`, byBallot},
	{"campaign every tick", "campaign.go", `case c.Campaigned != 0 && c.Term <= c.Campaigned:`, `case c.Campaigned != 0 && c.Term < c.Campaigned:`, byBallot},
	{"campaign again at once", "campaign.go", `case c.Fruitless > 0 && c.Ago <`, `case c.Fruitless > 0 && c.Ending && c.Ago <`, byBallot},
	{"silence whatever the election timeout", "campaign.go", `max(heartbeat, election*12/100)`, `max(heartbeat, 0*election)`, byBeat},
	{"silence of less than a heartbeat", "campaign.go", `max(heartbeat, election*12/100)`, `max(0*heartbeat, election*12/100)`, byBeat},
	{"depose a new leader that pauses", "campaign.go", `(lately(&c.Standing) || slices`, `(slices`, byBallot},
	{"depose a leader that is new to another", "campaign.go", `(lately(&c.Standing) || slices.ContainsFunc(c.Rivals, `, `(lately(&c.Standing) || slices.ContainsFunc(c.Rivals[:0], `, byBallot},
	{"depose a new leader that stalls", "campaign.go", `(reason == LeaderGone || reason == LeaderStalled) &&
		(lately`, `reason == LeaderGone &&
		(lately`, byBallot},
	{"depose a new leader that is gone", "campaign.go", `(reason == LeaderGone || reason == LeaderStalled) &&
		(lately`, `reason == LeaderStalled &&
		(lately`, byBallot},
	{"wait for a new leader that was killed", "campaign.go", `(reason == LeaderGone || reason == LeaderStalled) &&
		(lately`, `(lately`, byBallot},
	{"wait for a leader that pauses since it was elected", "campaign.go", `s.Elected > 0 && s.Elected <`, `s.Elected > 0 || s.Elected <`, byBallot},
	{"a pause changes nothing", "silences.go", `max(silentBeats*s.Beat, patienceFactor*s.Longest)`, `silentBeats * s.Beat`, byBallot},
	{"no patience without a pause", "silences.go", `max(silentBeats*s.Beat, patienceFactor*s.Longest)`, `patienceFactor * s.Longest`, byBallot},
	{"a leader that is lost was pausing", "silences.go", `answer != nil && answer.End.Term >= p.since`, `answer == nil || answer.End.Term >= p.since`, bySilences},
	{"a leader whose disk hangs was pausing", "silences.go", `answer != nil && answer.End.Term >= p.since`, `answer != nil`, bySilences},
	{"a deposed leader has not paused", "silences.go", `		p.note(p.lasted, now)`, ``, bySilences},
	{"ask before raft's own timers", "silences.go", `if now.Before(p.due) {`, `if p.deposed == 0 {`, bySilences},
	{"a handover is a pause", "silences.go", `		if p.silence > 0 {`, `		if p.silence >= 0 {`, bySilences},
	{"forget a pause that is over", "silences.go", `		p.note(p.silence, now)`, ``, bySilences},
	{"a leader that was heard again is deposed as silent", "silences.go", `		p.note(p.silence, now)
		p.silence = 0`, `		p.note(p.silence, now)`, bySilences},
	{"a leader counts its own pauses", "silences.go", `case s.Lead != s.ID && s.Late():`, `case s.Late():`, bySilences},
	{"pauses are never forgotten", "silences.go", `if now.Sub(p.at) >= rememberBeats*s.Beat {`, `if now.Sub(p.at) < 0 {`, bySilences},
	{"a short pause hides a longer one", "silences.go", `if pause >= p.Longest {`, `if pause >= 0 {`, bySilences},
	{"campaign without a majority", "campaign.go", `	case !c.majority():`, `	case !c.majority() && c.Ending:`, byBallot},
	{"campaign with a short log", "campaign.go", `	case behind:`, `	case behind && c.Ending:`, byBallot},
	{"campaign out of turn", "campaign.go", `time.Duration(before)*rankStep:`, `time.Duration(0*before)*rankStep:`, byBallot},
	{"campaign beside a stream", "campaign.go", `c.Refused && !slices.Contains(c.Near, c.Suspect):`, `c.Refused:`, byBallot},
	{"campaign although heartbeats come", "campaign.go", `c.Suspect != 0 && c.silent() && c.Unanswered():`, `c.Suspect != 0 && c.Unanswered():`, byBallot},
	{"campaign although the leader answers", "campaign.go", `c.Suspect != 0 && c.silent() && c.Unanswered():`, `c.Suspect != 0 && c.silent():`, byBallot},
	{"a leader that misses one question is gone", "campaign.go", `return c.Mute >= muteTries`, `return c.Mute > 1`, byBallot},
	{"a stalled leader is heard", "campaign.go", `c.Suspect != 0 && c.silent() && c.Answer.stuck():`, `c.Suspect != 0 && c.Answer.stuck():`, byBallot},
	{"a leader that answers is stalled", "campaign.go", `s.Lead == s.ID && s.missing(stuckBeats)`, `s.Lead == s.ID`, byBallot},
	{"a slow follower is a stalled leader", "campaign.go", `s.Running && s.Lead == s.ID && s.missing`, `s.Running && s.missing`, byBallot},
	{"campaign on one witness's word", "campaign.go", `	return with > len(c.Voters)/2
}

// unled`, `	return with > 1
}

// unled`, byBallot},
	{"a voter that hears the leader misses it", "campaign.go", `s.Lead == c.Suspect && s.silent()`, `s.Lead == c.Suspect`, byBallot},
	{"a voter without a leader misses this one", "campaign.go", `s.Lead == c.Suspect && s.silent()`, `s.silent()`, byBallot},
	{"a learner misses the leader", "campaign.go", `r.Said.Running && r.Said.Voter && says(`, `r.Said.Running && says(`, byBallot},
	{"all who miss the leader campaign at once", "campaign.go", `return c.Silence - patience`, `return c.Silence`, byBallot},
	{"voters with other memories campaign at once", "campaign.go", `patience = max(patience, r.Said.patience())`, `patience += 0 * r.Said.patience()`, byBallot},
	{"a silent voter consents to a refusal", "campaign.go", `		return slices.ContainsFunc(c.Rivals, near)
`, `		return !c.silent() && slices.ContainsFunc(c.Rivals, near)
`, byBallot},
	{"campaign although another leads", "campaign.go", `case c.Lead != 0 && c.Lead != c.Suspect:`, `case c.Lead != 0 && c.Suspect == 0:`, byBallot},
	{"campaign before the first entries are applied", "campaign.go", `case c.Suspect == 0 && !c.Settled:`, `case c.Suspect == 0 && !c.Settled && c.Ending:`, byBallot},
	{"apply what is committed before a leader is replaced", "campaign.go", `case c.Suspect == 0 && !c.Settled:`, `case !c.Settled:`, byBallot},
	{"the leader that is gone counts for the quorum", "campaign.go", `id == c.ID || id != c.Suspect && slices`, `id == c.ID || slices`, byBallot},
	{"a lost node comes first", "campaign.go", `		if !r.Live {
`, `		if !r.Live && c.Ending {
`, byBallot},
	{"who may not campaign comes first", "campaign.go", `r.Said.Able && r.Said.Running && r.Said.Voter`, `r.Said.Running && r.Said.Voter`, byBallot},
	{"who does not run comes first", "campaign.go", `r.Said.Able && r.Said.Running && r.Said.Voter`, `r.Said.Able && r.Said.Voter`, byBallot},
	{"a learner comes first", "campaign.go", `r.Said.Able && r.Said.Running && r.Said.Voter`, `r.Said.Able && r.Said.Running`, byBallot},
	{"who does not answer comes last", "campaign.go", `end, able := c.End, true`, `end, able := c.End, false`, byBallot},
	{"who does not run hears the leader", "campaign.go", `return s.Running && (s.Lead == s.ID ||`, `return (s.Lead == s.ID ||`, byBallot},
	{"a leader does not hear itself", "campaign.go", `return s.Running && (s.Lead == s.ID ||`, `return s.Running && (false ||`, byBallot},
	{"heard without a stream", "campaign.go", `slices.Contains(s.Near, s.Lead) && !s.silent())`, `!s.silent())`, byBallot},
	{"heard though silent", "campaign.go", `slices.Contains(s.Near, s.Lead) && !s.silent())`, `slices.Contains(s.Near, s.Lead))`, byBallot},
	{"a silent voter has lost the leader as well", "campaign.go", `		return !c.missed()`, `		return false`, byBallot},
	{"a silent voter knows no leader", "campaign.go", `return slices.ContainsFunc(c.Rivals, near) || slices.ContainsFunc(c.Rivals, live)`, `return slices.ContainsFunc(c.Rivals, near) || slices.ContainsFunc(c.Rivals[:0], live)`, byBallot},
	{"a connected voter knows no leader", "campaign.go", `return slices.ContainsFunc(c.Rivals, near) || slices.ContainsFunc(c.Rivals, live)`, `return slices.ContainsFunc(c.Rivals, live)`, byBallot},
	{"a founder again", "campaign.go", `c.First && c.Suspect == 0 && c.Term <= 1`, `c.First && c.Suspect == 0`, byBallot},
	{"any lost node's lock is over", "disruption.go", `	if !o.shared() {
		return false`, `	if o.current() == nil {
		return false`, byDisruption},
	{"any paused cluster is shared", "disruption.go", `r.Cause == Adopted || o.Member.Returning()`, `r.Cause == Adopted || o.Member.Paused != nil`, byDisruption},
	{"a cluster that goes back is not shared", "disruption.go", `r.Cause == Adopted || o.Member.Returning()`, `r.Cause == Adopted`, byDisruption},
	{"a live node's lock is over", "disruption.go", `p.Live && (p.Node == l.Node ||`, `!p.Live && p.Live && (p.Node == l.Node ||`, byDisruption},
	{"the lock of a node without facts is over", "disruption.go", `(p.Node == l.Node || p.Facts != nil`, `(p.Facts != nil`, byDisruption},
	{"the lock of a slot that moved is over", "disruption.go", `p.Node == l.Node || p.Facts != nil && p.Facts.Slot == l.Slot`, `p.Node == l.Node`, byDisruption},
	{"the lock of a member that is down is over", "disruption.go", `m.Slot == l.Slot && slices.Contains(o.Member.Near, m.ID)`, `m.Slot == l.Slot`, byDisruption},
	{"go down during a restore", "disruption.go", `case o.Disk.Ledger.Record != nil && proposals(o).frozen() != "":`, `case o.Disk.Ledger.Record == nil:`, byDisruption},
	{"go down unseen", "disruption.go", `case seen == nil:`, `case seen == nil && m.Leader:`, byDisruption},
	{"who was given back has ended", "disruption.go", `p.Live || !shared`, `p.Live || !shared || shared`, byDisruption},
	{"who was told to end was given back", "disruption.go", `p.Live || !shared`, `!shared`, byDisruption},
	{"who has just ended was given back", "disruption.go", `p.Live || !shared`, `p.Live || shared && p.Live`, byDisruption},
	{"go down beside a learner", "disruption.go", `	case learners != nil:`, `	case learners != nil && left < need:`, byDisruption},
	{"a follower's word on the members", "disruption.go", `if !f.Running || !f.Leader {`, `if !f.Running {`, byDisruption},
	{"wait without a quorum", "disruption.go", `case near <= voters/2:`, `case near < 0:`, byDisruption},
	{"wait for nobody", "disruption.go", `case staying == 0:`, `case staying < 0:`, byDisruption},
	{"hand over without a quorum", "disruption.go", `return near <= voters/2 || staying == 0`, `return near < 0 && voters < 0 || staying == 0`, byDisruption},
	{"hand over to somebody who leaves as well", "disruption.go", `return near <= voters/2 || staying == 0`, `return near <= voters/2 || staying < 0`, byDisruption},
	{"an unheard member is told to end", "disruption.go", `return connected && !known`, `return false`, byDisruption},
	{"a minority changes the slots", "resize.go", `case len(w.nodes) > voters/2 && w.steady():`, `case len(w.nodes) > 0:`, byResizes},
	{"those that leave bring themselves back", "resize.go", `case len(w.nodes) > voters/2 && w.steady():`, `case len(w.nodes) > voters/2:`, byStories},
	{"anybody's wish counts", "resize.go", `f.Slot == m.Slot && f.Member == m.ID && f.of(r)`, `(f.Slot == m.Slot || f.Slot == "") && f.of(r)`, byStories},
	{"the set of another generation", "knowledge.go", `if s != nil && s.Record == r.ID && (newest == nil`, `if s != nil && (newest == nil`, byStories},
	{"a replaced disk waits for good", "rivals.go", `case f.Running && o.replaced(*f):`, `case false:`, byStories},
	{"give a disk up while a node has just started", "restoring.go", `p := proposals(o.presumed()).open()`, `p := o.open()`, byStories},
	{"give a replaced disk up that takes part in a restore", "rivals.go", ` || proposals(o).counting() {`, ` {`, byStories},
	{"give a slot up to a learner", "rivals.go", `m.ID == f.Member && !m.Learner`, `m.ID == f.Member`, byStories},
	{"the lower serial wins", "knowledge.go", `s.Serial > newest.Serial) {`, `s.Serial < newest.Serial) {`, byResizes},
	{"agree before the last set is applied", "resize.go", `if now != nil && now.Serial > serial {`, `if now != nil && now.Serial > serial+1 {`, byStories},
	{"a lost set stays lost", "resize.go", `if o.Member.Led() {`, `if false {`, byStories},
	{"write an unread set again", "resize.go", `if o.Member.Led() {`, `if true {`, byStories},
	{"note what is older", "steady.go", ` && l.Set.Serial >= s.Serial {`, ` && l.Set.Serial == s.Serial {`, byStories},
	{"two joins at once", "steady.go", `case q.learner != nil && q.learner.Slot != slot:`, `case q.learner != nil && q.learner.Slot == "-":`, byResizes},
	{"grow while a voter is away", "steady.go", `case m.ID == 0 && len(q.away) > 0:`, `case m.ID == 0 && len(q.away) > 9:`, byResizes},
	{"grow before a lost disk is replaced", "shrink.go", `	mend(true)
	all = append(all, o.removeLost(q, wanted))
	mend(false)
`, `	mend(false)
	all = append(all, o.removeLost(q, wanted))
	mend(true)
`, byStories},
	{"remove without a majority", "shrink.go", `	case q.healthy <= q.voters/2: // of all voters, hence also of the remaining ones
`, `	case q.healthy < 0:
`, byStories},
	{"remove while a join is under way", "shrink.go", `		case q.learner != nil:
			return wait(`, `		case q.voters < 0:
			return wait(`, byResizes},
	{"what serves goes while another is away", "shrink.go", `	case len(q.away) > 0:
		return refuse(`, `	case len(q.away) > 1:
		return refuse(`, byStories},
	{"what serves goes while one that stays lags", "shrink.go", `case o.lagging(wanted) != "":`, `case o.lagging(wanted) == "-":`, byStories},
	{"what serves goes before what is dead", "shrink.go", `	all = append(all, o.removeLost(q, wanted))
	mend(false)
	return append(all, o.removeServing(q, wanted))`, `	mend(false)
	return append(all, o.removeServing(quorum{voters: q.voters, learner: q.learner}, wanted), o.removeLost(q, wanted))`, byResizes},
	{"the leader leaves first", "shrink.go", `	case len(out) > 0:
		return Action{`, `	case len(out) > 0 && slices.Contains(wanted, o.Claim.Slot):
		return Action{`, byResizes},
	{"shrink before it has grown", "shrink.go", `if m, ok := o.listed(keep); !ok || m.Learner {`, `if m, ok := o.listed(keep); ok && m.Learner {`, byStories},
	{"keep a join that nobody finishes", "shrink.go", `	case !m.Started:
		return remove(`, `	case m.ID == 0:
		return remove(`, byStories},
	{"keep a learner that is not wanted", "shrink.go", `if !slices.Contains(o.slots(o.Disk.Ledger.Record), m.Slot) {`, `if m.Slot == "-" {`, byStories},
	{"claim again what was given up", "rivals.go", `if unwanted := resizing(o).unwanted(); len(unwanted) > 0 {`, `if unwanted := resizing(o).unwanted(); len(unwanted) > 9 {`, byStories},
	{"only the configuration's slots", "rivals.go", `Known: resizing(o).known()}`, `Known: nil}`, byResizes},
	{"give up what is still a member's", "resize.go", `	case slices.Contains(needed, slot):
		return false`, `	case slices.Contains(o.slots(r), slot):
		return false`, byStories},
	{"give up what tells of the cluster", "resize.go", `return len(listed) > 0 && o.gone(r, o.Claim.Slot)`, `return (len(listed) > 0 || true) && o.gone(r, o.Claim.Slot)`, byStories},
	{"never give up", "resume.go", `if resizing(o).idle(r) {`, `if resizing(o).idle(r) && r.ID == "-" {`, byStories},
	{"believe a leader that a learner remembers", "steady.go", `case !m.Led() && o.dismissedBy`, `case !m.HasLead && o.dismissedBy`, byStories},
	{"wait for a quorum although removed", "steady.go", `case !m.Led() && o.dismissedBy(m.ID) != "":`, `case !m.Led() && o.dismissedBy(m.ID) == "-":`, byStories},
	{"defragment although a member is away", "upkeep.go", `		case h == nil:
			return s.note
`, `		case h == nil:
			_ = s.note
`, byUpkeep},
	{"defragment beside another", "upkeep.go", `return f.Defragging }); len(slots) > 0 {`, `return f.Defragging && o.Member.Lock != nil }); len(slots) > 0 {`, byStories},
	{"the leader first", "upkeep.go", `(o.Member.Leader || !f.Leader && f.Slot < o.Claim.Slot)`, `!o.Member.Leader && f.Slot < o.Claim.Slot`, byUpkeep},
	{"wait for one that rests", "facts.go", `f.Fragmented = o.Member.Fragmented && (o.Resting == "" ||`, `f.Fragmented = o.Member.Fragmented && (true ||`, byResting},
	{"forget one that rests under NOSPACE", "facts.go", `(o.Resting == "" || o.Member.Alarmed(NoSpace))`, `(o.Resting == "")`, byResting},
	{"no order of followers", "upkeep.go", `!f.Leader && f.Slot < o.Claim.Slot)`, `f.Slot == "-")`, byStories},
	{"defragment during a backup", "upkeep.go", `if o.Member.Snapshot && o.Member.Fragmented {`, `if o.Member.Snapshot && !o.Member.Fragmented {`, byUpkeep},
	{"defragment without the lock", "upkeep.go", `if obstacle := cmp.Or(o.obstacle(), o.lockedBy(), o.resting()); obstacle != "" {
		return wait(waits`, `if obstacle := cmp.Or(o.obstacle(), o.resting()); obstacle != "" {
		return wait(waits`, byStories},
	{"defragment while the lock is held from before", "upkeep.go", `	return cmp.Or(proposals(o).frozen(), o.halted(), o.away(), o.lockedBy())
}`, `	return cmp.Or(proposals(o).frozen(), o.halted(), o.away())
}`, byPermit},
	{"defragment beside a learner", "upkeep.go", `		case i.Learner:
			return`, `		case i.Learner && o.Member.Learner:
			return`, byStories},
	{"defragment although a member is cut off", "upkeep.go", `		case m.Leader && !i.Connected && i.ID != m.ID:`, `		case m.Learner && !i.Connected && i.ID != m.ID:`, byStories},
	{"the leader is defragmented as it leads", "upkeep.go", `case ours && m.Leader && m.Voters() > 1:`, `case ours && m.Leader && m.Voters() > 9:`, byStories},
	{"disarm a full database", "upkeep.go", `	case m.Leader && len(full) == 0:`, `	case m.Leader && len(full) < m.Voters():`, byStories},
	{"cure what is corrupt", "upkeep.go", `	case m.Alarmed(Corrupt):
		return o.corrupt()
`, ``, byUpkeep},
	{"give up data that differs without an order", "upkeep.go", `case o.Orders.Differs && !o.Claim.Short:`, `case m.Alarmed(Corrupt) && !o.Claim.Short:`, byStories},
	{"give up data that differs while another is away", "upkeep.go", `	obstacle := o.obstacle()
	switch {`, `	obstacle := ""
	switch {`, byStories},
	{"give up one of two", "upkeep.go", `	case m.Voters() < 3:`, `	case m.Voters() < 2:`, byStories},
	{"give up data beside a drain", "upkeep.go", `		obstacle = o.lockedBy()
	}
	switch {
	case obstacle`, `		obstacle = ""
	}
	switch {
	case obstacle`, byStories},
	{"give up data beside an alarm that names nobody", "upkeep.go", `	case m.Alarmed(Corrupt) && !m.blames(m.ID):`, `	case m.Alarmed(Corrupt) && len(m.Alarms) > 1:`, byStories},
	{"order before the reserve", "upkeep.go", `case o.Orders.Differs && !o.Claim.Short:`, `case o.Orders.Differs:`, byStories},
	{"compact again and again", "upkeep.go", `return !o.Compacted && o.Member.Revision > o.Member.Compacted`, `return o.Member.Revision > 0`, byUpkeep},
	{"never compact", "upkeep.go", `return !o.Compacted && o.Member.Revision > o.Member.Compacted`, `return false`, byStories},
	{"disarm while a volume has no room", "upkeep.go", `	if note := o.shortage(); note != "" {`, `	if note := o.shortage(); note == "-" {`, byUpkeep},
	{"disarm while another's volume has no room", "room.go", `s.holder.Facts.Short:`, `s.holder.Facts.Short && s.holder.Facts.Leader:`, byUpkeep},
	{"write on without the reserve", "upkeep.go", `	case o.Claim.Short:`, `	case o.Claim.Short && m.Leader:`, byStories},
	{"room as soon as the reserve is free", "room.go", `r.Free < r.Enough()`, `r.Free < r.Reserve()`, byStories},
	{"what is not known is room", "room.go", `		return before
`, `		return false
`, byReserve},
	{"defragment before what was deleted is compacted", "upkeep.go", `case len(full) > 0 && o.uncompacted():`,
		`case len(full) > 9 && o.uncompacted():`, byStories},
	{"compact before the alarm is disarmed", "upkeep.go", `case m.Leader && len(full) == 0:`,
		`case m.Leader && len(full) == 0 && !o.uncompacted():`, byStories},
	{"rest before the alarm is disarmed", "upkeep.go", `	step := o.cureStep()
`, `	step := o.cureStep()
	if o.resting() != "" {
		step = wait("")
	}
`, byStories},
	{"defragment after a failure at once", "upkeep.go", `case ours && o.resting() != "":`,
		`case ours && m.Snapshot && o.resting() != "":`, byStories},
	{"delete keys although there is something to gain", "upkeep.go", `case len(o.gaining(full)) > 0:`,
		`case len(o.gaining(full)) > 9:`, byStories},
	{"hand over in vain", "upkeep.go", `(!m.Leader || len(full) == 1)`, `(!m.Leader || len(full) > 0)`, byStories},
	{"wait for a leader that has nothing to gain", "upkeep.go", `(!f.Leader || len(full) == 1)`,
		`(!f.Leader || len(full) > 0)`, byStories},
	{"never wait for the leader", "upkeep.go", `(!f.Leader || len(full) == 1)`, `!f.Leader`, byStories},
	{"delete keys right after a compaction", "upkeep.go", `case o.Compacted: //`, `case o.Compacted && m.Leader: //`, byStories},
	{"a full database that shows nothing free", "upkeep.go", `j.Full && (!tried || u.Roomy(s)`, `j.Full && (u.Roomy(s)`, byJudge},
	{"defragment again without a gain", "upkeep.go", `j.Full && (!tried || u.Roomy(s) || free >= s.Quota/20)`, `j.Full`, byJudge},
	{"defragment what is not in the way", "upkeep.go", `j.Full && (!tried || u.Roomy(s) || free >= s.Quota/20)`,
		`j.Full && (!tried || u.Roomy(s)) || free >= s.Quota/20`, byJudge},
	{"give up what many deletions have freed", "upkeep.go", ` || u.Roomy(s) || free >= s.Quota/20)`, ` || u.Roomy(s))`, byJudge},
	{"the only member as any other", "upkeep.go", `if m.Voters() == 1 {`, `if m.Voters() == 0 {`, byJudge},
	{"agree on slots that cannot be written", "steady.go", `case next.Kind == Resize && o.Member.Alarmed(NoSpace):`, `case next.Kind == Resize && o.Member.Alarmed("-"):`, byStories},
	{"change the members beside a corrupt one", "steady.go", ` && (!corrupt || upkeep(o).replacesCorrupt(next)):`, ` && (!corrupt || true):`, byStories},
	{"keep a corrupt member", "steady.go", ` && (!corrupt || upkeep(o).replacesCorrupt(next)):`, ` && !corrupt:`, byStories},
	{"reload without the lock", "reload.go", `cmp.Or(upkeep(o).absent(), o.lockedBy())`, `upkeep(o).absent()`, byStories},
	{"reload although a member is away", "reload.go", `cmp.Or(upkeep(o).absent(), o.lockedBy())`, `o.lockedBy()`, byStories},
	{"reload while paused", "reload.go", `cmp.Or(proposals(o).frozen(), o.paused())`, `proposals(o).frozen()`, byReloads},
	{"reload during a restore", "reload.go", `cmp.Or(proposals(o).frozen(), o.paused())`, `o.paused()`, byStories},
	{"reload only among the same minors", "reload.go", `cmp.Or(proposals(o).frozen(), o.paused())`, `cmp.Or(proposals(o).frozen(), upkeep(o).halted())`, byStories},
	{"reload during a backup", "reload.go", `	if o.Member.Snapshot {`, `	if o.Member.Snapshot && o.Member.Fragmented {`, byStories},
	{"reload the leader first", "reload.go", `if before := upkeep(o).before(func(f *Facts) bool { return f.Stale }); before != "" {`, `if before := upkeep(o).before(fragmented); before != "" {`, byReloads},
	{"reload unseen", "reload.go", `cmp.Or(unconnected(seen), o.obstacle())`, `cmp.Or(unconnected(nil), o.obstacle())`, byReloads},
	{"reload on the word of the gossip", "reload.go", `cmp.Or(unconnected(seen), o.obstacle())`, `o.obstacle()`, byReloads},
	{"wait for a voter that is refused for good", "reload.go", `	return 2*here > m.Voters()`, `	return o.Node == "-" && 2*here > m.Voters()`, byReloads},
	{"reload at once under the lock only", "reload.go", `obstacle != "" || o.severed() {`, `obstacle != "" {`, byStories},
	{"reload at once while others accept each other", "reload.go", ` || slices.Contains(m.Trusts, m.Issuer) {`, ` {`, byStories},
	{"reload at once although no peer is seen", "reload.go", `	return 2*here > m.Voters()`, `	return here > 0`, byStories},
	{"reload at once with half of the voters", "reload.go", `	return 2*here > m.Voters()`, `	return 2*here >= m.Voters()`, byStories},
	{"reload at once for a learner", "reload.go", `!i.Learner && slices.Contains(found, i.ID)`, `slices.Contains(found, i.ID)`, byStories},
	{"reload at once for two nodes of one voter", "reload.go", `	return 2*here > m.Voters()`, `	return 2*len(found) > m.Voters()`, byStories},
	{"reload at once for what is not live", "reload.go", `case !p.Live || f == nil || !f.Running`, `case f == nil || !f.Running`, byStories},
	{"reload at once for what does not run", "reload.go", `case !p.Live || f == nil || !f.Running`, `case !p.Live || f == nil`, byStories},
	{"reload at once for another cluster's", "reload.go", `!f.Running || !f.of(o.Disk.Ledger.Record):`, `!f.Running:`, byStories},
	{"reload at once with an authority of one's own", "reload.go", `		case !f.Stale: //`, `		case !f.Stale && f.Slot == "-": //`, byStories},
	{"wait for one that is to be restarted", "reload.go", `		case !f.Stale: //`, `		case f.Slot != "-": //`, byStories},
	{"reload at once beside one that is connected", "reload.go", `!slices.Contains(m.Trusts, f.Issuer) &&`, `f.Issuer != "-" &&`, byStories},
	{"reload at once beside another authority", "reload.go", `f.Stale && f.Issuer == m.Issuer)`, `f.Stale)`, byStories},
	{"reload at once beside one that stays", "reload.go", `f.Stale && f.Issuer == m.Issuer)`, `f.Issuer == m.Issuer)`, byStories},
	{"reload at once beside one stale for its clients", "reload.go", `!slices.Contains(m.Trusts, f.Issuer) &&
		(slices.Contains(f.Trusts, m.Issuer) || f.Stale && f.Issuer == m.Issuer)`, `slices.Contains(f.Trusts, m.Issuer) || f.Stale`, byStories},
	{"wait for one that has restarted", "reload.go", `(slices.Contains(f.Trusts, m.Issuer) || f.Stale && f.Issuer == m.Issuer)`, `f.Stale && f.Issuer == m.Issuer`, byStories},
	{"reload at once, and wait for the order of slots", "reload.go", `	if o.severed() {
		return Action`, `	if o.severed() && upkeep(o).before(func(f *Facts) bool { return f.Stale }) == "" {
		return Action`, byStories},
	{"reload in an election", "reload.go", `	case o.Disk.Log == nil:`, `	case o.Disk.Log == nil && frozen != "":`, byReloads},
	{"never reload without a leader", "reload.go", `case !m.Stale || !m.Adrift() || `, `case !m.Stale || m.Adrift() || `, byReloads},
	{"believe that a learner has the leader it had", "reload.go", `return !m.HasLead || m.Learner && `, `return !m.HasLead || m.Learner && m.ID == 0 && `, byStories},
	{"reload a learner that catches up", "reload.go", ` && !slices.Contains(m.Near, uint64(m.LeaderID))`, ``, byStories},
	{"reload what is removed", "reload.go", ` || o.dismissedBy(m.ID) != "":`, ` || o.dismissedBy(m.ID) == "-":`, byStories},
	{"reload without a leader during a restore", "reload.go", `	case frozen != "":
		return wait(`, `	case frozen == "-":
		return wait(`, byStories},
	{"defragment before a reload", "upkeep.go", `	case m.Stale:
		return reloading(o).stale()
`, `	case m.Stale && !m.Fragmented:
		return reloading(o).stale()
`, byStories},
	{"a disk that forgot its cluster is blank", "next.go", `case o.Disk.Ledger.forgetful():`, `case o.Disk.Ledger.forgetful() && o.Node == "-":`, byStories},
	{"believe a record of a later version", "valid.go", `		return fmt.Errorf("cause: got %q: %w", r.Cause, ErrUnsupported)`, `		return nil`, byValid},
	{"believe a record without what began it", "valid.go", `	if p == nil {`, `	if p == nil && r.ID == "" {`, test{"TestRecordValid", `nil pointer`}},
	{"believe a recovery without its survivor", "valid.go", `case r.Cause == Recovered && survivor.Disk != p.Disk:`, `case r.ID == "":`, byValid},
	{"believe any lineage", "valid.go", `	if generation != uint64(len(line))+1 {`, `	if generation == 0 {`, byValid},
	{"believe a ledger without a record", "valid_disk.go", `	case !known && (l.Role`, `	case l.Prepared == nil && !known && (l.Role`, byValid},
	{"believe data of no record", "valid_facts.go", `	case record && f.Record == nil:`, `	case record && f.Record == nil && f.Disk == "":`, byValid},
	{"any number of members", "valid_disk.go", `bounded(field, len(all), 0, maxSlots)`, `bounded(field, len(all), 0, 1<<30)`, byValid},
	{"wait for a learner that makes no progress", "shrink.go", `case m.Stuck && !o.Early && o.waiting(m.Slot) != "":`, `case m.Stuck && o.Node == "-":`, byStories},
	{"undo a learner before listening", "shrink.go", `case m.Stuck && !o.Early && o`, `case m.Stuck && o`, byStories},
	{"undo a learner for nobody", "shrink.go", `case m.Stuck && !o.Early && o.waiting(m.Slot) != "":`, `case m.Stuck && !o.Early:`, byStories},
	{"admit what was undone again", "shrink.go", `ad.Slot == slot && ad.ID != m.ID`, `ad.Slot == "-" && ad.ID != m.ID`, byStories},
	{"resume although it went back in time", "resume.go", `if a := o.rollback(); a.Kind != "" {`, `if a := o.rollback(); a.Kind == "-" {`, byRollbacks},
	{"a log that ends where it did went back", "rollback.go", `d.Log.Index < index`, `d.Log.Index <= index`, byRollbacks},
	{"a disk that forgot the term did not go back", "rollback.go", `return d.Term < term || d.Term == term && `, `return d.Term == term && `, byStories},
	{"the word of a leader that was replaced", "rollback.go", `return d.Term < term || d.Term == term && `, `return d.Term < term || `, byStories},
	{"another member's acknowledgement", "rollback.go", `return m.ID == member })`, `return m.Acked > 0 })`, byStories},
	{"what the leader of another generation has seen", "mesh.go", `!p.Facts.Leader || !p.Facts.of(r) })`, `!p.Facts.Leader || p.Facts.Record == nil })`, byStories},
	{"the word of a leader that is gone", "mesh.go", `slices.DeleteFunc(o.live(), func(p Peer) bool { return p.Facts == nil || !p.Facts.Leader`, `slices.DeleteFunc(slices.Clone(o.Peers), func(p Peer) bool { return p.Facts == nil || !p.Facts.Leader`, byStories},
	{"the older of two leaders", "rollback.go", `leader == nil || l.Facts.Term > leader.Facts.Term`, `leader == nil`, byStories},
	{"set aside on the word of a leader that nobody confirms", "rollback.go", `if !l.Facts.Confirmed {`, `if l.Facts == nil {`, byStories},
	{"start before the leader is heard", "next.go", `case resuming(o).unheardLeader() != "" && o.Early:`, `case resuming(o).unheardLeader() == "-" && o.Early:`, byStories},
	{"wait for a leader that is not heard", "next.go", `case resuming(o).unheardLeader() != "" && o.Early:`, `case resuming(o).unheardLeader() != "":`, byStories},
	{"wait for a leader that nobody has", "rollback.go", ` && f.Running && f.Confirmed {`, ` {`, byStories},
	{"begin as a founder that began", "resume.go", `case o.begunBefore(o.Disk.Founder) != "":`, `case o.begunBefore(o.Disk.Founder) == "-":`, byStories},
	{"begin as a learner that began", "resume.go", `if why := o.begunBefore(id); why != "" {`, `if why := o.begunBefore(id); why == "-" {`, byStories},
	{"accept an admission that was used", "resume.go", `|| o.begunBefore(ad.ID) != "" `, `|| o.begunBefore(ad.ID) == "-" `, byStories},
	{"wait for a learner that began and forgot it", "steady.go", ` && m.Acked == 0 && `, ` && `, byStories},
	{"tell everybody of every write", "rollback.go", `		if f.Members[i].Connected {`, `		if f.Members[i].Connected && f.Members[i].Learner {`, byQuiet},
	{"two holders stop the leader", "mesh.go", `case found == nil || o.stronger(*f, p.Node, *found.Facts, found.Node):`, `case found != nil:
			return nil, "two"
		default:
			found = &p
		case false:`, byStories},
	{"no leader objects", "ending.go", ` || !m.Running || m.Learner {`, ` || !m.Running || m.Learner || o.Member.Led() {`, bySimulation},
	{"a leader lets itself be called leaderless", "ending.go", `case m.Led() && p.Led == nil:`, `case o.Member.Led() && p.Led == nil && mine.ID == "-":`, byObject},
	{"a leader lets itself be called lost", "ending.go", `	case m.Led() && lost:`, `	case o.Member.Led() && lost && mine.ID == "-":`, byObject},
	{"a voter without a leader never objects", "ending.go", `case lost && p.Led == nil && !slices`, `case lost && p.Led == nil && mine.ID == "-" && !slices`, byObject},
	{"object again although overruled", "ending.go", `case lost && p.Led == nil && !slices.Contains(p.Overruled, o.Claim.Disk):`, `case lost && p.Led == nil:`, byObject},
	{"object to the end of another generation", "ending.go", ` || p.Parent() != mine.ID || !m.Running`, ` || !m.Running`, byObject},
	{"what does not run objects", "ending.go", ` || !m.Running || m.Learner {`, ` || m.Learner {`, byObject},
	{"a leader that raft remembers", "ending.go", `return m.Running && m.HasLead && m.Confirmed`, `return m.Running && m.HasLead`, byStories},
	{"conclude without waiting", "restoring.go", `return o.Alone && !o.Member.Led()`, `return !o.Member.Led()`, byStories},
	{"a follower concludes", "restoring.go", `return o.Member.Leader && o.Member.Led() && o.consented(p.ID)`, `return o.Member.Led() && o.consented(p.ID)`, byStories},
	{"conclude without consent", "restoring.go", `return o.Member.Leader && o.Member.Led() && o.consented(p.ID)`, `return o.Member.Leader && o.Member.Led()`, byStories},
	{"conclude as a leader that nobody confirms", "restoring.go", `return o.Member.Leader && o.Member.Led() && o.consented(p.ID)`, `return o.Member.Leader && o.consented(p.ID)`, byStories},
	{"consent to the end of another generation", "knowledge.go", ` && c.Record == r.ID && c.Proposal == id`, ` && c.Proposal == id`, byStories},
	{"consent to another proposal", "knowledge.go", ` && c.Record == r.ID && c.Proposal == id`, ` && c.Record == r.ID && id != ""`, byStories},
	{"prepare before anybody has consented", "restoring.go", `if p.Led != nil && !o.heardConsent(p.ID) {`, `if p.Led != nil && p.ID == "" {`, byStories},
	{"freeze the members before anybody has consented", "restoring.go", `p != nil && (p.Led == nil || o.heardConsent(p.ID)) {`, `p != nil {`, byStories},
	{"follow a conclusion without consent", "ending.go", `case !o.Member.Led() || o.consented(child.ID):`, `case !o.Member.Led() || child.ID != "":`, byStories},
	{"follow a record that nothing proves", "ending.go", `	case child == nil:
`, `	case child == nil:
		return r, "", ""
	case mine == nil:
`, byStories},
	{"follow what was aborted", "ending.go", `case slices.Contains(o.Disk.Ledger.Aborted, child.ID):`, `case child.ID == "-":`, byStories},
	{"the blind follow whatever is led", "ending.go", `case child.Restore.Led == nil && o.Blind:`, `case o.Blind:`, byStories},
	{"the blind never follow", "ending.go", `case child.Restore.Led == nil && o.Blind:`, `case child.Restore.Led == nil && o.Blind && mine == nil:`, byStories},
	{"follow one disk's word", "ending.go", `in[id])))) > len(slots)/2 {`, `in[id])))) > 0 {`, byStories},
	{"follow any disk's word", "ending.go", ` || !heir(mine, *f) {`, ` {`, byStories},
	{"follow disks while there is a leader", "ending.go", `	if o.Member.Led() {
		return nil
	}
`, ``, byStories},
	{"the disks of the lost are heirs", "ending.go", ` && (f.Record.Restore == nil || !slices.Contains(f.Record.Restore.Lost, f.Slot))`, ``, byStories},
	{"the disks of a later charter are heirs", "ending.go", `own := f.Record.Parent() == ours.ID && is.Member`, `own := is.Member`, byStories},
	{"resume while the store may answer yet", "resume.go", `	case o.Starting:`, `	case o.Starting && r.ID == "-":`, byStories},
	{"resume although a record says it is over", "resume.go", `	case pending != "":`, `	case pending == "-":`, byStories},
	{"a record keeps what a leader would take back", "resume.go", `case o.leader(r) != nil: // it is live`, `case o.leader(r) != nil && r.ID == "-": // it lives`, byStories},
	{"start although a proposal waits for us to leave", "resume.go", `(o.Alone || slices.Contains(p.Lost, o.Claim.Slot)) {`, `slices.Contains(p.Lost, o.Claim.Slot) {`, byStories},
	{"leave for a proposal that is led", "restoring.go", `return p.Led == nil && o.Alone &&`, `return o.Alone &&`, byStories},
	{"leave at once", "restoring.go", `return p.Led == nil && o.Alone &&`, `return p.Led == nil &&`, byStories},
	{"leave a leader", "restoring.go", `o.Disk.Ledger.Left == nil && !o.Member.Led()`, `o.Disk.Ledger.Left == nil`, byStories},
	{"leave before it has prepared", "restoring.go", `case o.departs(p) && (excused || o.prepared(p.ID)):`, `case o.departs(p):`, byStories},
	{"a leader that cannot prepare never concludes", "restoring.go", `(o.prepared(p.ID) || excused && p.Led != nil)`, `o.prepared(p.ID)`, byStories},
	{"a leader concludes before it has tried to prepare", "restoring.go", `(o.prepared(p.ID) || excused && p.Led != nil)`, `(o.prepared(p.ID) || p.Led != nil)`, byStories},
	{"who cannot prepare concludes without a leader", "restoring.go", `(o.prepared(p.ID) || excused && p.Led != nil)`, `(o.prepared(p.ID) || excused)`, byStories},
	{"the survivor leaves before it has prepared", "recover.go", `case o.departs(p) && (!survivor || o.prepared(p.ID) || o.Unable != ""):`, `case o.departs(p):`, byStories},
	{"nobody leaves who cannot prepare", "restoring.go", `case o.departs(p) && (excused || o.prepared(p.ID)):`, `case o.departs(p) && (!founder || o.prepared(p.ID)):`, byStories},
	{"stay after any abort", "ending.go", `return a.ID == id })`, `return a.ID != "" })`, byStories},
	{"stay by the word of a copy", "ending.go", `	case s.Unknown == "" && o.otherStore() != "":`, `	case s.Unknown == "-":`, byStories},
	{"the ledger forgets that it has left", "ledger.go", `		l.Left = a.Left
`, `		l.Left = nil
`, bySimulation},
	{"a restart forgets that it has left", "next.go", `case o.Disk.Ledger.Left != nil &&`, `case o.Disk.Ledger.Left != nil && o.Disk.Ledger.Record == nil &&`, bySimulation},
	{"stay without forgetting", "ledger.go", `		l = l.remember(a.Aborted)
		l.Left = nil
`, `		l = l.remember(a.Aborted)
`, bySimulation},
	{"who left for another proposal is out", "fence.go", `f.Left.Proposal == p.ID && f.Member == m.ID`, `f.Member == m.ID`, byStories},
	{"any disk's leaving counts for the slot", "fence.go", `f.Left.Proposal == p.ID && f.Member == m.ID`, `f.Left.Proposal == p.ID`, byStories},
	{"learners are never promoted unheard", "fence.go", `return left < f.voters/2+1 && left+f.learners < all/2+1`, `return left < f.voters/2+1 && all > 0`, byStories},
	{"restore before its voters have left", "fence.go", `	case p.Led == nil && !dead:`, `	case p.Led == nil && !dead && old == nil:`, byStories},
	{"the list of one that left long ago", "knowledge.go", ` && (p.Live || open != nil && open.ID == f.Left.Proposal):`, ` && (p.Live || open != nil):`, byStories},
	{"set the lost aside although they hold more", "ending.go", `!o.Disk.Log.after(*p.Log):`, `o.Disk.Log != nil:`, byStories},
	{"set the lost aside beside a backup", "ending.go", `	if p == nil || p.Led != nil || !slices`, `	if p == nil || p.Led != nil || p.Log == nil || !slices`, byStories},
	{"the lost are set aside as they run", "ending.go", `	switch {
	case o.Member.Running:
`, `	switch {
	case o.Member.Running:
		return o.follow(next)
	case next == nil:
`, byStories},
	{"a rejoin is not heard", "ending.go", `if !o.Disk.WAL || o.Orders.Join || `, `if !o.Disk.WAL || `, byStories},
	{"a log of another generation is compared", "ending.go", `r.Restore.Origin == of.ID &&`, `r.Restore.Survivor != "" &&`, byStories},
	{"the end of the first survivor alone counts", "ending.go", `		p = again
`, `		_ = again
`, byStories},
	{"heed only the first that leads", "mesh.go", `id != 0 && slices.Contains(l.Facts.Removed, id) {`, `id != 0 && slices.Contains(l.Facts.Removed, id) && o.leader(o.Disk.Ledger.Record).Node == l.Node {`, byStories},
	{"set aside on anybody's word", "next.go", `o.dismissedBy(o.Disk.Member) != "":`, `o.removedBy(o.Disk.Member) != "":`, byStories},
	{"set aside without asking the leader", "sim_act_test.go", `func() { n.dismissed(a) }, `, ``, byDismissal},
	{"a stray blocks a start", "rivals.go", `f.Slot != o.Claim.Slot || o.otherGeneration(f) {`, `f.Slot != o.Claim.Slot {`, byStories},
	{"a stray takes a seat", "knowledge.go", `f.Slot == slot && !o.otherGeneration(&f) &&`, `f.Slot == slot &&`, byStories},
	{"a stray holds a member's slot", "mesh.go", `case o.otherGeneration(f):`, `case o.otherGeneration(f) && slot == "":`, byStories},
	{"a stray's store makes ours worthless", "mesh.go", `case mine != nil && f.Record.ID != mine.ID:`, `case mine != nil && f.Record.ID == "":`, byStories},
	{"a copy of the store counts", "mesh.go", ` || f.Nonce != "" && !slices.Contains(o.Store.Met, p.Node):`, `:`, byStories},
	{"a store that does not answer is a copy", "mesh.go", `		case o.Store.Unknown != "" && (o.Store.ID == "" || o.Store.ID == f.Store): // cannot be known
`, ``, byConflicts},
	{"no way out beside an unproven record", "ending.go", `if o.Member.Running && !o.Member.Led() { // it takes`, `if false { // it takes`, byConflicts},
	{"recover beside a leader of a lost store", "ending.go", `if o.leader(mine) != nil {`, `if false {`, byStories},
	{"take part in what was aborted", "restoring.go", `if p != nil && slices.Contains(o.Disk.Ledger.Aborted, p.ID) {`, `if p != nil && p.ID == "-" {`, byStories},
	{"change members beside what is open again", "restoring.go", `if p := proposals(o.presumed()).inStore(); p != nil && (p.Led`, `if p := o.open(); p != nil && (p.Led`, byStories},
	{"change members while a node has just started", "restoring.go", `if p := proposals(o.presumed()).inStore(); p != nil && (p.Led`, `if p := o.inStore(); p != nil && (p.Led`, byStories},
	{"start what was declared lost by what is open again", "resume.go", `if p := proposals(o.presumed()).inStore(); p != nil`, `if p := proposals(o).open(); p != nil`, byStories},
	{"start what was declared lost while a node has just started", "resume.go", `if p := proposals(o.presumed()).inStore(); p != nil`, `if p := proposals(o).inStore(); p != nil`, byStories},
	{"start what is over while a node has just started", "resume.go", `case succession(o).undecided():`, `case false:`, byStories},
	{"a node with another store has just started", "mesh.go", `slices.Concat(o.Store.Met, o.Store.Late)`, `slices.Concat(o.Store.Met, o.Store.Late, []string{"n2", "n3"})`, byStories},
	{"leave open what was aborted", "ending.go", `	case slices.Contains(o.Disk.Ledger.Aborted, p.ID):
		return`, `	case lost && slices.Contains(o.Disk.Ledger.Aborted, p.ID):
		return`, byObject},
	{"a consent outlives the abort", "ending.go", `if l.Record == nil || !m.Leader || !m.Led() {`, `if l.Record == nil || m.Leader || !m.Led() {`, byWithdrawn},
	{"nobody is told that an abort was deleted", "ending.go", `p != nil && slices.Contains(o.Disk.Ledger.Aborted, p.ID) {
		all`, `p != nil && p.ID == "-" {
		all`, byConflicts},
	{"start on a doubt beside who went on", "resume.go", `	case o.laterNode() != "":`, `	case o.laterNode() == "-":`, byStories},
	{"a word alone keeps a member waiting", "resume.go", `o.Store.Unproven <= mine.Generation {`, `mine == nil {`, byStories},
	{"the word of a lost node keeps a member waiting", "resume.go", `	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.descends(mine) {`, `	for _, p := range o.Peers {
		if p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.descends(mine) {`, byStories},
	{"never note an abort", "steady.go", `if a := succession(o).unnoted(); a != nil {`, `if a := succession(o).unnoted(); a != nil && l.Record == nil {`, byStories},
	{"note what a copy says", "ending.go", `s.Record.ID != l.Record.ID || o.otherStore() != "" {`, `s.Record.ID != l.Record.ID {`, byStories},
	{"nobody is told of a stray", "ending.go", `if f == nil || f.Record == nil || f.Record.ID == mine.ID ||`, `if f == nil || f.Record == nil || f.Record.ID != mine.ID ||`, byConflicts},
	{"nobody is told of a strange store", "ending.go", `o.Store.Unknown == "" && r != nil && r.Lineage() != mine.Lineage() {`, `o.Store.Unknown == "" && r != nil && r.ID == "" {`, byConflicts},
	{"serve on without a seat", "generation.go", `	case o.Member.Running && o.leader(r) == nil:`, `	case o.Member.Running && o.leader(r) == nil && slot == "":`, byStories},
	{"set aside before the next generation serves", "generation.go", `	case member && o.leader(r) == nil && !o.Orders.Join:`, `	case member && slot == "":`, byStories},
	{"keep in place what the next generation does not need", "generation.go", `	case member:
`, `	case member && slot == "":
`, byStories},
	{"enter once stopped although the record knew too little", "generation.go", `	} else if l != nil && l.Proposal == r.ID {`, `	} else if l != nil && l.Proposal == "" {`, byStories},
	{"continue alone without waiting", "recover.go", `	case !o.Alone:`, `	case !o.Alone && p.ID == "":`, byStories},
	{"continue alone although a voter was not named", "survey.go", `if refusal == "" && v.Voter && v.Slot != chosen.Slot && !slices`, `if refusal == "" && v.Gone && !slices`, byStories},
	{"continue alone before it has prepared", "recover.go", `	if !o.prepared(p.ID) {
		return o.prepare(p)
	}
	s := surveying(o).survey()`, `	s := surveying(o).survey()`, byStories},
	{"continue alone beside a store that answers", "restoring.go", `p.Survivor != "" && s.Unknown != "" && p.Parent() == mine.ID`, `p.Survivor != "" && p.Parent() == mine.ID`, byStories},
	{"continue alone from another disk", "restoring.go", `p.Parent() == mine.ID && p.Disk == o.Claim.Disk {`, `p.Parent() == mine.ID {`, byStories},
	{"continue instead before anybody has consented", "recover.go", `	case p.Led != nil && !o.heardConsent(p.ID):`, `	case p.Led != nil && !o.heardConsent(p.ID) && p.Survivor == "":`, byStories},
	{"a follower continues instead", "recover.go", `case p.Led == nil && !mine, !o.mayConclude(p):`, `case p.Led == nil && (!mine || !o.Alone), p.Led != nil && !o.consented(p.ID):`, byStories},
	{"continue instead before the disk has prepared", "recover.go", `	case !ready:`, `	case !ready && h == nil:`, byStories},
	{"continue instead of voters that could serve", "recover.go", `	case p.Led == nil && !f.deserted():`, `	case p.Led == nil && !f.deserted() && f.need < 0:`, byStories},
	{"continue instead without waiting", "recover.go", `case p.Led == nil && !mine, !o.mayConclude(p):`, `case p.Led == nil && !mine, p.Led != nil && !o.mayConclude(p):`, byStories},
	{"any disk continues instead", "restoring.go", `p.Parent() == s.Record.ID && p.Disk == o.Claim.Disk {`, `p.Parent() == s.Record.ID {`, byStories},
	{"a disk that is back takes part in nothing", "resume.go", `return proposals(o).beside(succession(o).moveOn(next))`, `return succession(o).moveOn(next)`, byStories},
	{"a survivor without data takes part in nothing", "generation.go", `		return proposals(o).beside(wait("slot %s was to continue`, `		return Action.but(wait("slot %s was to continue`, byStories},
	{"join whom the store does not know", "founding.go", `o.Store.Record != nil && o.Store.Record.Lineage() != known.Lineage():`, `o.Store.Record != nil && o.Store.Record.Lineage() == "-":`, byStories},
	{"a store that not all share is no veto to promise", "founding.go", `		return o.onlyStoreKnows(shared)`, `		if shared {
			return o.onlyStoreKnows(shared)
		}
		o.Store.Record = nil`, byStories},
	{"a store that not all share is no veto to commit", "founding.go", `case o.Store.Record != nil && o.Store.Record.ID != r.ID:`, `case shared && o.Store.Record != nil && o.Store.Record.ID != r.ID:`, byStories},
	{"restore by itself from a store that not all share", "founding.go", `	if !o.Config.Automatic || !shared {`, `	if !o.Config.Automatic {`, byStories},
	{"a stray founder makes the store unshared", "founding.go", `return slices.ContainsFunc(c.Seats, func(s Seat) bool { return s.Disk == f.Disk })`, `return true`, byStories},
	{"a stray cluster makes the store unshared", "founding.go", `counts = func(f Facts) bool { return f.of(mine) }`, `counts = func(f Facts) bool { return true }`, byStories},
	{"found without room", "founding.go", `why != "" && mine == nil {`, `why != "" && mine != nil {`, byStories},
	{"be admitted without room", "founding.go", `noRoom(); why != "" { // a learner`, `noRoom(); why == "-" { // a learner`, byStories},
	{"begin with NOSPACE", "room.go", `2*segment + r.Enough()`, `segment`, byStories},
	{"recover by itself beside a majority", "recover.go", `	if survey.Majority() {`, `	if survey.Majority() && survey.Obstacle != "" {`, byStories},
	{"who has left is awaited", "fence.go", `h.facts.of(old) && (h.facts.Left == nil || h.facts.Left.Proposal != p.ID)`, `h.facts.of(old)`, byStories},
	{"who continues is asked to choose", "ending.go", ` || seat.Disk == o.Claim.Disk {`, ` || seat.Disk == "-" {`, byStories},
	{"take over without being told to", "adopt.go", `case !o.Config.Adopt:`, `case false:`, byStories},
	{"take over what cannot be", "adopt.go", `case from.Obstacle != "":`, `case from.Obstacle == "-":`, byStories},
	{"take over a removed member", "adopt.go", `case !listed:`, `case !listed && from.Member == 0:`, byStories},
	{"take over another slot's member", "adopt.go", `case m.Slot != slot:`, `case m.Slot == "-":`, byStories},
	{"take over beside a learner", "adopt.go", `return !m.Learner && m.Name != ""`, `return m.Name != ""`, byStories},
	{"take over beside who never started", "adopt.go", `return !m.Learner && m.Name != ""`, `return !m.Learner`, byStories},
	{"take over a newer cluster", "adopt.go", `case Older(o.Config.Etcd, from.Version):`, `case from.Version == "-":`, byStories},
	{"take over a cluster that is too old", "adopt.go", `case distant(o.Config.Etcd, from.Version):`, `case from.Version == "-":`, byStories},
	{"a version that is not agreed on is too old", "adopt.go", `return !known || m == Minor{3, 0}`, `return !known || m == Minor{2, 0}`, byStories},
	{"take over under two names", "adopt.go", `f.CID == r.Adopted.Cluster && f.Record != nil && f.Record.Lineage() != r.ID {`, `f.CID == r.Adopted.Cluster && f.Record != nil && f.Record.Lineage() == "-" {`, byStories},
	{"take over beside another cluster", "adopt.go", `case known != nil && known.Lineage() != r.ID:`, `case known != nil && known.Lineage() == "-":`, byStories},
	{"take over against the store", "adopt.go", `case s != nil && o.Store.Unknown == "" && s.Lineage() != r.ID && !o.replaceable(r):`, `case s != nil && s.Lineage() == "-":`, byStories},
	{"what was not given back gives way", "adopt.go", `s.Record != nil && s.Returned && s.Record`, `s.Record != nil && s.Record`, byStories},
	{"who comes again gives way to itself", "adopt.go", `s.Returned && s.Record.Lineage() != r.ID`, `s.Returned`, byStories},
	{"who lives with what was given back is not heard", "adopt.go", `return !p.Live && p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.Lineage() != r.ID`, `return p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.Lineage() != r.ID`, byStories},
	{"lost nodes never veto a takeover", "adopt.go", `if o.replaceable(r) || s.Unknown == "" && s.Record != nil && s.Record.Lineage() == r.ID {`, `if s.ID != "-" || o.replaceable(r) {`, byStories},
	{"lost nodes veto the next takeover", "adopt.go", `if o.replaceable(r) || s.Unknown == "" && s.Record != nil && s.Record.Lineage() == r.ID {`, `if o.replaceable(r) && s.ID != "-" {`, byStories},
	{"take over without the store", "adopt.go", `	if unknown != "" {`, `	if unknown == "-" {`, byStories},
	{"take over beside a queued command", "adopt.go", `s.Unknown == "" && len(s.Requests) > 0 {`, `s.Unknown == "-" {`, byStories},
	{"make a record that is not whole", "adopt.go", `if err := r.Valid(); err != nil {`, `if err := r.Valid(); err == nil && r.ID == "-" {`, byStories},
	{"a record for each list", "adopt.go", `adoptedID(cluster, peerURL, from.Cluster), Cause`, `adoptedID(cluster, peerURL, from.Cluster+from.Members[len(from.Members)-1].ID), Cause`, bySeen},
	{"foreign data is told as blank", "facts.go", `case (d.WAL || d.Origin != nil) && d.Ledger.Record == nil`, `case d.WAL && d.Ledger.Record == nil`, bySeen},
	{"foreign data is no data", "facts.go", `!o.Disk.WAL && o.Disk.Origin == nil`, `!o.Disk.WAL`, byStories},
	{"found beside foreign data", "next.go", `	case o.Disk.Origin != nil && o.Disk.Ledger.Record == nil:`, `	case o.Disk.Origin != nil && o.Disk.WAL:`, test{"TestAdoptionSimulation", `no life ever came to adopt`}},
	{"change the members while mixed", "upkeep.go", `cmp.Or(o.paused(), o.mixed(), adopting(o).mixed())`, `cmp.Or(o.paused(), o.mixed())`, byStories},
	{"the end of a takeover is not asked for", "sim_adopt_test.go", `(r == nil || r.alien || !w.reach(n, r))`, `r == nil`, byAdoptions},
	{"the end of a takeover is never told", "facts.go", `f.Taken = l.Record != nil && l.Taken == l.Record.ID`, `f.Taken = false`, bySeen},
	{"who is gone runs", "adopt.go", `is(o.facts(nil)) || slices.ContainsFunc(o.live(), func(p Peer)`, `is(o.facts(nil)) || slices.ContainsFunc(o.Peers, func(p Peer)`, byStories},
	{"who holds the disk runs", "adopt.go", `return f.of(r) && f.Running && f.Member == id`, `return f.of(r) && f.Member == id`, byStories},
	{"the end of a takeover without a leader", "adopt.go", `if !o.Member.Led() || len(o.Member.Members) == 0 {`, `if len(o.Member.Members) == 0 {`, byStories},
	{"another's word of the end is nothing", "adopt.go", `p.Facts.of(r) && p.Facts.Taken`, `p.Facts.of(r) && p.Facts.Phase == "-"`, bySeen},
	{"conclude a restore while mixed", "fence.go", `case adopting(o).forbidden(p) != "":`, `case adopting(o).forbidden(p) == "-":`, byStories},
	{"let a restore be while mixed", "ending.go", `case m.Led() && adopting(look(&o)).forbidden(p) != "":`, `case false:`, bySeen},
	{"no recovery while mixed", "adopt.go", `if p.Survivor != "" || len(slots) == 0 {`, `if len(slots) == 0 {`, bySeen},
	{"carry out a foreign command while mixed", "restoring.go", `mixed != "" && q.Backup != "" {`, `mixed == "-" {`, bySeen},
	{"go down unseen", "adopt.go", `!o.mayReturn(r) || m.Leader || !m.Led() || o.leader(r) != nil {`, `!o.mayReturn(r) || m.Leader || o.leader(r) != nil {`, bySight},
	{"what a lost node has noted", "adopt.go", `return p.Live && p.Facts != nil && p.Facts.of(r) && p.Facts.Taken`, `return p.Facts != nil && p.Facts.of(r) && p.Facts.Taken`, bySeen},
	{"who was seen runs it for ever", "adopt.go", `(p.Live || !away)`, `(p.Live || !away || away)`, bySeen},
	{"taken for good", "adopt.go", `return !o.Member.Returning() && (`, `return r.Cause == Adopted && (`, bySeen},
	{"taken noted for good", "adopt.go", `r.Cause == Adopted && noted && o.Member.Returning()`, `r.Cause == Adopted && noted && !noted`, bySeen},
	{"noted again on the way back", "adopt.go", `noted || o.Member.Returning():`, `noted:`, bySeen},
	{"start data of the past", "next.go", `case o.Disk.Superseded != "" && !o.Member.Running:`, `case o.Disk.Superseded == "-":`, byStories},
	{"repair whatever is in the way", "adopt.go", `	if why := o.unfit(from); why.Text != "" {
`, `	if why := o.unfit(from); why.Text != "" && !o.Disk.WAL {
`, byStories},
	{"any adopted cluster is on its way back", "adopt.go", `return r != nil && r.Cause == Adopted && o.Member.Paused != nil`, `return r != nil && r.Cause == Adopted`, bySight},
	{"any paused cluster is on its way back", "adopt.go", `return r != nil && r.Cause == Adopted && o.Member.Paused != nil`, `return r != nil && o.Member.Paused != nil`, bySight},
	{"what a drained node has released is ours", "adopt.go", `(f.Running || !o.Member.Returning())`, `(f.Running || r != nil)`, bySeen},
	{"only what runs is ours", "adopt.go", `(f.Running || !o.Member.Returning())`, `f.Running`, bySeen},
	{"all who are told to stop wait", "disruption.go", `f.Slot < obs.Claim.Slot`, `f.Slot != obs.Claim.Slot`, byLeaving},
	{"who has stopped goes first", "disruption.go", `f.Stopping && f.Running &&`, `f.Stopping &&`, byLeaving},
	{"who is lost goes first", "disruption.go", `if p.Live && f != nil && f.Stopping`, `if f != nil && f.Stopping`, byLeaving},
	{"who stays goes first", "disruption.go", `f != nil && f.Stopping && f.Running`, `f != nil && f.Running`, byLeaving},
	{"what goes back after a restore is ours", "adopt.go", `return !o.Member.Returning() && (r.Cause != Adopted ||`, `return r.Cause != Adopted || !o.Member.Returning() && (r == nil ||`, bySeen},
	{"go down without the leader's word", "adopt.go", `!m.Led() || o.leader(r) != nil {`, `!m.Led() || r == nil {`, bySight},
	{"all are connected", "adopt.go", `seen[i].ID == m.ID || slices.Contains(m.Near, seen[i].ID)`, `true`, bySight},
	{"an adopted record in any form", "valid.go", `	case Adopted:
		return r.adopted()`, `	case Adopted:
		return nil`, byValid},
	{"an adoption in any record", "valid.go", `if (r.Cause == Adopted) != (r.Adopted != nil) {`, `if r.Cause == Adopted && r.Adopted == nil {`, byValid},
	{"change a URL before all have promised", "secure.go", `return (runs || !begun) && !o.holderSays(`, `return runs && !runs && !o.holderSays(`, bySecures},
	{"a configuration is a promise", "secure.go", `f.Secured == o.pattern() })`, `f.PeerURL == o.pattern() })`, bySecures},
	{"start with less than was promised", "scheme.go", `case promised != nil && promised.PeerURL != o.Config.PeerURL:`, `case promised != nil && promised.PeerURL == "":`, bySecures},
	{"http ends with the promise", "secure.go", `Secured: &Secured{PeerURL: o.pattern()},`, `Secured: &Secured{o.pattern(), true},`, bySecures},
	{"http ends with the first URL", "secure.go", `	case len(left) == 0 && (s == nil || !s.Changed):`, `	case len(left) < len(m.Members) && (s == nil || !s.Changed):`, bySecures},
	{"http ends when the operator says so", "scheme.go", `(o.Config.FromHTTP != "" || o.secured(r, secure))`, `(o.Config.FromHTTP != "" || o.Node != "-")`, bySecures},
	{"http at a port where nobody looks", "scheme.go", `!strings.HasSuffix(r.Charter.PeerURL, ":"+o.Config.FromHTTP):`, `r.Charter.PeerURL == "":`, byStories},
	{"the next generation remembers the promise", "ledger.go", `l.Left, l.Aborted, l.Secured = nil, nil, nil`, `l.Left, l.Aborted = nil, nil`, bySchemes},
	{"who joins notes nothing", "secure.go", `			return &Secured{pattern, true}, ""`, `			return nil, ""`, byStories},
	{"a restore goes back to http", "restore.go", `return cmp.Or(r.PeerURL, old.PeerURL)`, `return old.PeerURL`, byStories},
	{"promise before all serve https", "secure.go", `len(left) == len(m.Members) && o.notServing() != "":`, `o.notServing() == "-":`, byStories},
	{"promise again only where nobody is lost", "secure.go", `len(left) == len(m.Members) && o.notServing() != "":`, `o.notServing() != "":`, byStories},
	{"what a lost node served", "secure.go", `p.Live && f.Running && f.PeerURL == o.pattern()`, `f.Running && f.PeerURL == o.pattern()`, byStories},
	{"http ends by a list that nobody confirms", "secure.go", `!m.Ready || !m.Led() || m.Learner`, `!m.Ready || m.Learner`, byStories},
	{"the promise of another member", "secure.go", `p.Facts.Member == m.ID && p.Facts.of(`, `p.Facts.Slot == m.Slot && p.Facts.of(`, byStories},
	{"begin while a voter is away", "secure.go", `(!begun || o.returns(q))`, `o.returns(q)`, byStories},
	{"wait for nobody", "secure.go", `(!begun || o.returns(q))`, `!begun`, byStories},
	{"wait for who is lost", "secure.go", `(!begun || o.returns(q))`, `(!begun || q.healthy > 0)`, byStories},
	{"wait for a promise that nobody remembers", "secure.go", `return (runs || !begun) && !o.holderSays(`, `return (runs || !runs) && !o.holderSays(`, byStories},
	{"change a URL without a majority", "secure.go", `case q.healthy <= q.voters/2:`, `case q.healthy <= q.voters/9:`, byStories},
	{"change URLs beside a learner", "secure.go", `case q.learner != nil:`, `case q.learner != nil && !begun:`, byStories},
	{"change URLs while a member goes down", "secure.go", `cmp.Or(o.unpromised(begun), o.lockedBy())`, `o.unpromised(begun)`, byStories},
	{"change URLs while paused", "secure.go", `cmp.Or(proposals(o).frozen(), upkeep(o).halted()) != ""`, `proposals(o).frozen() != ""`, byStories},
	{"change URLs during a restore", "secure.go", `cmp.Or(proposals(o).frozen(), upkeep(o).halted()) != ""`, `upkeep(o).halted() != ""`, byStories},
	{"change URLs beside a corrupt member", "secure.go", `case !begun && o.Member.Alarmed(Corrupt):`, `case !begun && o.Member.Alarmed("-"):`, byStories},
	{"admit while the URLs are of two kinds", "secure.go", `	case left > 0:`, `	case left > 9:`, byStories},
	{"admit who has no TLS", "secure.go", `case said && scheme == "http":`, `case said && scheme == "-":`, byStories},
	{"accept a URL that is not served", "secure.go", `case pattern == "" || PeerURL(pattern, m.Slot) != m.PeerURL:`, `case pattern == "-":`, byStories},
	{"without http by another member's URL", "secure.go", `return m.ID == id && m.PeerURL == PeerURL(pattern, o.Claim.Slot)`, `return m.PeerURL == PeerURL(pattern, o.Claim.Slot)`, byStories},
	{"join by the record's URLs", "resume.go", `cmp.Or(m.PeerURL, PeerURL(r.Charter.PeerURL, m.Slot))`, `PeerURL(r.Charter.PeerURL, m.Slot)`, bySchemes},
	{"believe a restore with other URLs", "valid.go", `case p.PeerURL != "" && p.PeerURL != r.Charter.PeerURL:`, `case p.PeerURL == "-":`, byValid},
	{"believe a promise of nothing", "valid_disk.go", `(l.Secured.PeerURL == "" || !known):`, `l.Secured.PeerURL == "-":`, byValid},
}

// TestMutants shows that the tests see what each guard is for: without the guard, they fail.
func TestMutants(t *testing.T) { mutanttest.Check(t, all(mutants)) }

// TestMutantsApply sees at once, and without a build, that a mutant's text is no longer in step with the source.
func TestMutantsApply(t *testing.T) { mutanttest.Apply(t, all(mutants)) }

func all(mutants []mutant) []mutanttest.Mutant {
	list := make([]mutanttest.Mutant, len(mutants))
	for i, m := range mutants {
		list[i] = mutanttest.Mutant{Name: m.name, File: m.file, Old: m.old, New: m.new, Test: m.by.name, Says: m.by.says}
	}
	return list
}
