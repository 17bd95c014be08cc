package embedded

import (
	"os"
	"slices"
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants disable the guards around another program's data, around changes of the members, and around an early
// election. Each names the test that must fail then.
var mutants = []mutanttest.Mutant{
	{Name: "remove what serves at once", File: "membership.go", Old: ` || r.serves(srv, list) {`, New: ` {`,
		Test: "TestLearnerJoinsAndIsRemoved", Says: "remove a voter that serves"},
	{Name: "take up what is in use", File: "takeup.go", Old: `if err == nil && by != "" {`, New: `if err == nil && by == "-" {`,
		Test: "TestTakeUpRuns", Says: "taken up while etcd runs"},
	{Name: "read whose data is in use", File: "origin.go", Old: `if err == nil && by != "" {`, New: `if err == nil && by == "-" {`,
		Test: "TestOriginLocked", Says: "the log is locked"},
	{Name: "take up what has an obstacle", File: "takeup.go", Old: `if o.Obstacle != "" {`, New: `if o.Obstacle == "-" {`,
		Test: "TestTakeUpRefuses", Says: "an obstacle: got"},
	{Name: "take up another member's data", File: "takeup.go", Old: `found.Member != o.Member || found.ClusterID != o.Cluster`, New: `found.ClusterID != o.Cluster`,
		Test: "TestTakeUpRefuses", Says: "another member: got"},
	{Name: "take up another cluster's data", File: "takeup.go", Old: `|| found.ClusterID != o.Cluster`, New: `|| false`,
		Test: "TestTakeUpRefuses", Says: "another cluster: got"},
	{Name: "the volume's data is what is beside the volume", File: "datadir.go", Old: `err == nil && text == managerLink`, New: `err == nil && text == "-"`,
		Test: "TestTakeUpKilled", Says: "we find"},
	{Name: "take its place by two renames", File: "takeup.go", Old: `if err := exchange(p.home, p.link); err != nil {`, New: `if err := func() error {
			text, _ := os.Readlink(p.home)
			if err := os.Remove(p.home); err != nil {
				return err
			}
			if err := os.Rename(p.link, p.home); err != nil {
				return err
			}
			step("exchanged")
			return os.Symlink(text, p.link)
		}(); err != nil {`, Test: "TestTakeUpKilled", Says: "the other program finds"},
	{Name: "take the link of another for ours", File: "takeup.go", Old: `return got == text, err`, New: `return got != "", err`,
		Test: "TestTakeUpRefuses|TestOriginObstacles", Says: "a link of somebody|data elsewhere"},
	{Name: "overwrite the note", File: "foreign.go", Old: `if old != nil && *old != m {`, New: `if old != nil && *old == (originMark{}) {`,
		Test: "TestTakeUpRefuses", Says: "other data was taken up: got"},
	{Name: "a token that leads out", File: "managerstate.go", Old: `!strings.ContainsAny(token, "/\x00")`, New: `token != "-"`,
		Test: "TestTakeUpRefuses|TestManagerStateRefuses|TestOriginObstacles", Says: "a deep path: got|is not the name of a directory"},
	{Name: "etcd-manager has run since", File: "foreign.go", Old: `s.Token != f.Token {`, New: `s.Token == "-" {`,
		Test: "TestOriginObstacles", Says: "etcd-manager since: got"},
	{Name: "data in quarantine", File: "foreign.go", Old: `case s.Quarantined:`, New: `case s.Quarantined && s.NewCluster:`,
		Test: "TestOriginObstacles", Says: "quarantined: got"},
	{Name: "data of two programs", File: "foreign.go", Old: `case len(tokens) > 0 && plain:`, New: `case len(tokens) > 9 && plain:`,
		Test: "TestOriginObstacles", Says: "two programs: got"},
	{Name: "a log on another disk", File: "foreign.go", Old: `filepath.Join(memberDir, "wal"), `, New: ``,
		Test: "TestOriginObstacles", Says: "a log elsewhere: got"},
	{Name: "a restored database's configuration", File: "memberships_read.go", Old: `if raft == nil || !took {`, New: `if raft == nil || took && !took {`,
		Test: "TestReadMemberships", Says: "restored: got"},
	{Name: "a refused change is one", File: "memberships_read.go", Old: `subject, now) || took`, New: `subject, now) || true`,
		Test: "TestReadMemberships", Says: "restored, and a change was refused: got"},
	{Name: "phantoms", File: "origin.go", Old: `if d.Kind.Blocks() {`, New: `if d.Kind.Blocks() && d.Kind == "-" {`,
		Test: "TestOriginObstacles", Says: "a phantom: got"},
	{Name: "its own removal", File: "origin.go", Old: `if !standing(byID(m.V3), m.V3Removed, m.Member).listed() {`, New: `if m.Member == 0 {`,
		Test: "TestOriginObstacles", Says: "itself removed: got"},
	{Name: "another pattern", File: "origin.go", Old: `case e.Slot == "":`, New: `case e.PeerURL == "":`,
		Test: "TestOriginObstacles", Says: "a URL without slot: got"},
	{Name: "an older cluster", File: "origin.go", Old: `if v.Older(plan.Minor{Major: 3, Minor: 6}) {`, New: `if v.Older(plan.Minor{Major: 3}) {`,
		Test: "TestOriginObstacles", Says: "etcd 3.5: got"},
	{Name: "fields that are not known", File: "managerstate.go", Old: `return append(b, *m.unknown...)`, New: `return b`,
		Test: "TestManagerStateKeepsWhatItDoesNotKnow", Says: "got "},
	{Name: "the user of plain etcd", File: "takeup.go", Old: `if filepath.Dir(above) == p.left {`, New: `if above == p.left {`,
		Test: "TestTakeUpOfAUser", Says: "is of 0:0"},
	{Name: "hand back what is not clear", File: "takeup.go", Old: `case !taken && there:`, New: `case !taken && there && free:`,
		Test: "TestHandBack", Says: "both: got"},
	{Name: "hand back a blank disk", File: "takeup.go", Old: `case free && (taken || !there):`, New: `case free && taken && !there:`,
		Test: "TestHandBack", Says: "blank: got"},
	{Name: "campaign though this process was starved", File: "campaign.go", Old: `.look(mark, starved+p.rest)`,
		New: `.look(mark, 24*time.Hour)`, Test: "TestPulse", Says: "pulse: silent for"},
	{Name: "a rest is starvation", File: "campaign.go", Old: `.look(mark, starved+p.rest)`, New: `.look(mark, starved)`,
		Test: "TestRest", Says: "rest: silent for 40ms"},
	{Name: "rest while much comes", File: "campaign.go", Old: `came > 0 && came < heartbeats`, New: `came > 0`,
		Test: "TestRest", Says: "rest: silent for 0s, rests for 95ms"},
	{Name: "rest while nothing comes", File: "campaign.go", Old: `came > 0 && came < heartbeats`, New: `came < heartbeats`,
		Test: "TestRest", Says: "rest: silent for 95ms, rests for 95ms"},
	{Name: "a member answered nothing while this process was starved", File: "connected.go",
		Old: `.look(mark, election)`, New: `.look(mark, 24*time.Hour)`,
		Test: "TestAnswers", Says: "answers: after 1h0m0s"},
	{Name: "a new leader counts what it heard as the last one", File: "connected.go", Old: `a.of = nil`, New: `_ = a.of`,
		Test: "TestAnswers", Says: "answers: after 1ms"},
	{Name: "a member that answers nothing is connected", File: "connected.go", Old: `>= unanswered*election`,
		New: `>= unanswered*election && false`, Test: "TestAnswers", Says: "answers: after 1ms"},
	{Name: "an answer is late at once", File: "connected.go", Old: `>= unanswered*election`, New: `>= election`,
		Test: "TestAnswers", Says: "answers: after 1.5s"},
	{Name: "what one member says, another has said", File: "connected.go", Old: `	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {`, New: `	a.mu.Lock()
	defer a.mu.Unlock()
	id = 1
	if a.of == nil {`, Test: "TestAnswers", Says: "answers: after 0s with 4 missing is false"},
	{Name: "count the connections of a suspended process", File: "connected.go",
		Old: `missing(of, received(of), electionTimeout(srv))`, New: `missing(of, unknown, electionTimeout(srv))`,
		Test: "TestConnectedAnswers", Says: "timed out waiting: the leader counts it no more"},
	{Name: "an inactive member that answers stays inactive", File: "connected.go", Old: `go reattach(srv, of)`,
		New: `_ = reattach`, Test: "TestConnectedAgain", Says: "timed out waiting: it is connected again"},
	{Name: "a member that cannot be dialled is connected", File: "connected.go",
		Old: ` || !dials(tr, srv.Cluster().Member(id)) {`, New: ` || !dials(tr, srv.Cluster().Member(id)) && false {`,
		Test: "TestConnectedAgain", Says: "connected: a member that cannot be dialled"},
	{Name: "what was heard before the question counts", File: "connected.go", Old: `= received(m.ID)`, New: `= -7`,
		Test: "TestConnectedAnswers", Says: "just muted: connected true"},
	{Name: "a follower wants to be answered", File: "connected.go", Old: `if srv.Leader() != srv.MemberID() {`,
		New: `if srv.Leader() == 0 {`, Test: "TestConnectedAnswers", Says: "connected: a follower wants to be answered"},
	{Name: "another leader's silence", File: "campaign.go", Old: `if of != p.of {`, New: `if p.of == 0 {`,
		Test: "TestPulse", Says: "pulse: another leader"},
	{Name: "write ahead into etcd's own file", File: "prewrite_linux.go", Old: `unix.RENAME_NOREPLACE`, New: `0`,
		Test: "TestPrewriteTooLate", Says: "look: <nil>, want file already exists"},
	{Name: "write ahead before etcd has its next file", File: "prewrite_linux.go", Old: `there != 1`, New: `there > 1`,
		Test: "TestPrewrite", Says: "want 0"},
	{Name: "write ahead on a full disk", File: "prewrite_linux.go", Old: `free < p.room`, New: `free < 0`,
		Test: "TestPrewriteLeavesNothing", Says: "0.tmp has"},
	{Name: "bytes of no leader", File: "campaign.go", Old: `if from == 0 || vec == nil`, New: `if vec == nil`,
		Test: "TestReceivedOfNone", Says: "received: there is"},
	{Name: "the first leader follows another", File: "campaign.go", Old: `if p.term != 0 {`, New: `if true {`,
		Test: "TestElected", Says: "elected: 1 leads in term 5"},
	{Name: "an election that brings no leader", File: "campaign.go", Old: `if lead != 0 && term != p.term {`, New: `if term != p.term {`,
		Test: "TestElected", Says: "elected: "},
	{Name: "a client that connects after the end is served", File: "native.go", Old: `n.end.dropped() {`,
		New: `n.end == nil {`, Test: "TestHandshakeAfterTheEnd", Says: "it is served|got "},
	{Name: "each leader's disk hangs", File: "campaign.go", Old: `if p.Match > mine {`, New: `if p.Match >= mine {`,
		Test: "TestHanging", Says: "hanging: 5 of 5"},
}

// TestMutants shows that the tests detect a missing guard: without it, they fail.
func TestMutants(t *testing.T) {
	see := slices.Clone(mutants)
	if os.Geteuid() != 0 { // the test is skipped
		see = slices.DeleteFunc(see, func(m mutanttest.Mutant) bool { return m.Test == "TestTakeUpOfAUser" })
	}
	mutanttest.Check(t, see)
}

// TestMutantsApply detects at once, without a build, that a mutant's text no longer matches the source.
func TestMutantsApply(t *testing.T) { mutanttest.Apply(t, mutants) }
