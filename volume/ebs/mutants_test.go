package ebs

import (
	"strconv"
	"testing"

	"holdfast/integration/mutanttest"
)

// mutant removes a guard of the protocol.
type mutant struct {
	name string
	file string
	old  string
	new  string
	by   caught
}

// caught is the test that must detect a mutant, and the text that it must print: a test that does not build prints
// none.
type caught struct{ test, says string }

var (
	bySimulation = caught{"TestSimulation", `at [0-9ms.]+: ((I\d|L1): )?[^\n]*`}
	bySteady     = caught{"TestSteady", `want [^\n]*`}
	byMeanings   = caught{"TestMeanings", `got [^\n]*`}
	byGoing      = caught{"TestGoingInstanceGivesTheRestBack", `detached [^\n]*`}
	byWarm       = caught{"TestWarmInstanceClaimsNothing", `stands by in [^\n]*`}
	byDrop       = caught{"TestDropContinues", `dropped [^\n]*`}
	byClock      = caught{"TestClockWasSetSinceTheRequest", `want [^\n]*`}
	byAsking     = caught{"TestVolumeWithoutTheClustersTags", `asked EC2 [^\n]*`}
	byRecord     = caught{"TestRecordTag", `got the tag [^\n]*`}
	// Without these guards only the number of requests changes: the simulation stays green.
	harmless = caught{"TestSimulation", ``}
)

// byCalm is a test without faults but those that it makes.
func byCalm(test string) caught { return caught{test, `at [0-9hms.]+: [^\n]*`} }

var mutants = []mutant{
	{"forget own detaches", "requests.go", `		j.Detaching[vol] = time.Now()
`, ``, bySimulation},
	{"use what is being detached", "present.go", `if _, leaving := j.Detaching[v.ID]; leaving {`, `if _, leaving := j.Detaching[v.ID]; leaving && v.ID == "" {`, bySimulation},
	{"attach what may yet be detached", "choose.go", `if _, leaving := journal.Detaching[v.ID]; leaving {`, `if _, leaving := journal.Detaching[v.ID]; leaving && v.ID == "" {`, bySimulation},
	{"a refused detach settles the one before", "requests.go", `case known && (err != nil || !before.IsZero()):`, `case known && !before.IsZero():`, bySimulation},
	{"forget zombies at once", "requests.go", `const zombie = 15 * time.Minute`, `const zombie = time.Second`, bySimulation},
	{"trust EC2 that it is attached", "attempt.go", `		if time.Since(looked) >= cloudLook {
			looked = time.Now()
			if v, ok, err := a.one(ctx, vol); err == nil && ok {
`, `		if time.Since(looked) >= cloudLook/10 {
			looked = time.Now()
			if v, ok, err := a.one(ctx, vol); err == nil && ok {
				if holder(v) == a.me.Instance && v.Attachments[0].State == Attached {
					return "/dev/nvme1n1", nil
				}
`, bySimulation},
	{"adopt what EC2 says is here", "present.go", `		if a.devices[v.ID] == "" {
			a.status.left(v.ID)
			continue
		}
`, `		if holder(v) != a.me.Instance {
			continue
		}
		if a.devices[v.ID] == "" {
			a.devices[v.ID] = "/dev/nvme1n1"
		}
`, bySimulation},
	{"null is free", "choose.go", `		case a.Instance == "":
			return "something that AWS manages holds it"
`, `		case a.Instance == "":
			return ""
`, bySimulation},
	{"take what is not available", "choose.go", `	case v.State != VolumeAvailable:
		return "its state is " + v.State
`, ``, harmless},
	{"attach Multi-Attach volumes", "choose.go", `case v.MultiAttach:`, `case false:`, bySimulation},
	{"ignore affinity", "choose.go", `case affinity != "" && affinity != r.me.Instance:`, `case false:`, bySimulation},
	{"ignore the zone", "choose.go", `case v.Zone != r.me.Zone:`, `case false:`, bySimulation},
	{"ignore the slots", "choose.go", `case !slices.Contains(r.want.Slots, slot) && !slices.Contains(r.want.Known, slot):`, `case false:`, bySimulation},
	{"go on while an attachment is open", "attempt.go", `case a.open != "":`, `case a.open == "-":`, bySimulation},
	{"a lost answer is a refusal", "attempt.go", `case m == Uncertain, m == InUse && earlier:`, `case m == InUse && earlier:`, byMeanings},
	{"a throttled request needs a cure", "requests.go", `case InUse, NotNow, NotFound, Throttled:`, `case InUse, NotNow, NotFound:`, byMeanings},
	{"shed no second device", "present.go", `		if v.ID != best.ID {
			a.requests.shed`, `		if v.ID == "" {
			a.requests.shed`, harmless},
	{"shed nothing while held", "held.go", `case c.rules.unfit(c.rules.here(v)) == "":`, `case false:`, bySimulation},
	{"adopt any of two", "present.go", `		if rules.closer(v, best, j.Held) {`, `		if !rules.closer(v, best, j.Held) {`, harmless},
	{"remove any record", "held.go", `undone := c.record.undone != "" && v.Tags[TagRecord] == c.record.undone`, `undone := c.record.token == "" && v.Tags[TagRecord] != ""`, byRecord},
	{"never take a record back", "held.go", `c.record = record{undone: before}`, `c.record = record{}`, byRecord},
	{"leave strays", "requests.go", `		if !r.seen.since("stray "+v.ID, stray, stuck) {`, `		if stray || !stray {`, bySimulation},
	{"believe the list", "present.go", `		_, used := j.Attaching[id]
`, `		if id != "" {
			continue
		}
		_, used := j.Attaching[id]
`, bySimulation},
	{"format without the proof", "prepare.go", `	case content.Blank:
		return a.format`, `	case content.Blank || content.Type == "" || c.formatted == "":
		return a.format`, bySimulation},
	{"format again after the identity", "prepare.go", `	if err := a.requests.remember(func(j *Journal) { j.Formatting = nil }); err != nil {
		return err
	}
`, ``, bySimulation},
	{"never format again", "prepare.go", `case begun && (content.Blank`, `case begun && false && (content.Blank`, bySimulation},
	{"ignore the identity", "prepare.go", `if why := c.Want.Mismatch(*found.Identity); why != "" {`, `if why := c.Want.Mismatch(*found.Identity); why == "-" {`, bySimulation},
	{"serve from foreign data", "prepare.go", `case found.Entries > 0 && !adopt:`, `case found.Entries < 0 && !adopt:`, bySimulation},
	{"adopt whatever is there", "prepare.go", `adopt := a.want.Adopt && len(found.Foreign) > 0`, `adopt := a.want.Adopt`, bySimulation},
	{"believe what is read without the journal", "prepare.go", `c.mount(ctx, false); err == nil {
			id, mismatch, err = a.whose(format)
		}`, `c.mount(ctx, false); err == nil {
		}`, bySimulation},
	{"stop at what cannot grow", "prepare.go", `	c.p.status.failure("grow", err)
	return nil
`, `	c.p.status.failure("grow", err)
	return err
`, bySimulation},
	{"mount foreign data for writing", "prepare.go", `c.mount(ctx, foreign)`, `c.mount(ctx, false)`, bySimulation},
	{"keep the epoch", "prepare.go", `c.tag.Epoch = max(c.tag.Epoch, id.Epoch+1)`, `c.tag.Epoch = max(c.tag.Epoch, id.Epoch)`, bySimulation},
	{"the epoch of the tag only", "prepare.go", `c.tag.Epoch = max(c.tag.Epoch, id.Epoch+1)`, ``, bySimulation},
	{"release what is mounted", "release.go", `	err := p.host.Disks.Unmount(ctx, c.dir)
`, `	err := error(nil)
`, bySimulation},
	{"keep old mounts", "prepare.go", `left := a.requests.unmountAll(ctx, c.device)
`, `left := error(nil)
`, harmless},
	{"seize without a second look", "seize.go", `err != nil || len(now) != 1 || now[0].State != InstanceStopped`, `err != nil || len(now) != 1`, bySimulation},
	{"seize from who runs", "seize.go", `return i.State == InstanceStopped && `, `return i.State != InstancePending && `, harmless},
	{"serve at once after a stop", "present.go", `	if a.cfg.Takeover == takeoverStopped {
		if err`, `	if a.cfg.Takeover == "-" {
		if err`, bySimulation},
	{"serve while being detached after a stop", "present.go", `!ok || !a.attachedHere(now)`, `!ok || now.ID == ""`, bySimulation},
	{"serve at once after a stop, without tags", "attempt.go", `if tagless && a.cfg.Takeover != takeoverStopped {`, `if tagless {`, bySimulation},
	{"give up when EC2 fails", "held.go", `		return "" // a failing EC2 is no evidence
`, `		return "nobody"
`, byCalm("TestOutage")},
	{"believe one answer", "held.go", `if looks >= patience && `, `if looks > 0 || `, bySimulation},
	{"believe EC2 rather than the device", "held.go",
		`who == "" || !stalled {`, `who == "" || !stalled && who == "-" {`, byCalm("TestLies")},
	{"no fence", "held.go", `	if c.mounted {
		if e := `, `	if c.blind && c.unsaid {
		if e := `, bySimulation},
	{"never look at the device", "held.go", `c.Evidence(ctx, c.look, taken)`, `c.Evidence(ctx, func() error { return nil }, taken)`, bySimulation},
	{"do not settle", "attempt.go", `		case err == nil && text == c.tag.String():
`, `		case err == nil && text != "":
`, bySteady},
	{"hurry after a claim", "choose.go", `	case !time.Now().Before(free):
`, `	case !time.Now().Before(seen):
`, harmless},
	{"scan all the time", "scan.go", `next: now.Add(s.jitter(s.cfg.ScanEvery))`, `next: now`, bySteady},
	{"ask each second about a volume without tags", "present.go", `if !a.seen.stranger(id) {`, `if !a.seen.stranger("") {`, byAsking},
	{"vacate on an old notice", "present.go", `if own || a.outlook.confirmed(ctx).Leaves() == "" {`, `if own {`, byGoing},
	{"a notice stands until it is withdrawn", "lifecycle.go", `now, _ := o.metadata.Lifecycle(ctx, Lifecycle{})`, `now, _ := o.metadata.Lifecycle(ctx, o.now())`, byGoing},
	{"vacate only if all is answered", "lifecycle.go", `	now, _ := o.metadata.Lifecycle(ctx, Lifecycle{})
	return now`, `	now, err := o.metadata.Lifecycle(ctx, Lifecycle{})
	if err != nil {
		return Lifecycle{}
	}
	return now`, byGoing},
	{"stand by in a warm pool", "lifecycle.go", ` || plans.Leaves() != "" || !plans`, ` || !plans`, byWarm},
	{"stand by at a risk", "lifecycle.go", ` || !plans.Rebalance.IsZero() {`, ` {`, byWarm},
	{"give up volumes after the time is up", "list.go", ` || err != nil && ctx.Err() != nil {`, ` {`, byDrop},
	{"believe the wall clock", "requests.go", `		return time.Since(since)`, `		return max(time.Since(since), time.Since(sent))`, byClock},
	{"leave the tag behind", "held.go", `	if !said {
`, `	if said && !said {
`, byCalm("TestOutage")},
	{"keep the claim of what cannot be attached", "attempt.go",
		`if !errors.Is(err, volume.ErrNoneFree) { // it`, `if err == nil { // it`, byCalm("TestFullInstance")},
	{"claim again at once after a failure", "attempt.go", `			a.setbacks.fail(a.c.vol, err)
`, ``, byCalm("TestFullInstance")},
	{"take any epoch from a tag", "held.go",
		`t.Epoch < volume.MaxEpoch/2 {`, `t.Epoch < volume.MaxEpoch {`, byCalm("TestEpochsLast")},
	{"stop at a full disk", "requests.go",
		`if e != nil || j.Held == nil ||`, `if e != nil || j.Held != nil ||`, byCalm("TestFullRootDisk")},
}

// TestMutants shows what each guard is for: without it, a test fails.
func TestMutants(t *testing.T) {
	list := make([]mutanttest.Mutant, len(mutants))
	for i, m := range mutants {
		list[i] = mutanttest.Mutant{Name: m.name, File: m.file, Old: m.old, New: m.new, Test: m.by.test, Says: m.by.says}
		switch m.by {
		case harmless: // no text is expected, so all these lives are lived
			list[i].Args = []string{"-sim.lives=500"}
		case bySimulation: // any of its lives may be the one that breaks
			list[i].Args = []string{"-sim.lives=" + strconv.Itoa(simWhole)}
		}
	}
	mutanttest.Check(t, list)
}
