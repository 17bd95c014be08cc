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
	bySimulation = test{"TestSimulation", `(I\d|R\d+|liveness): [^\n]*`}
	byCircle     = test{"TestCircle", `does not answer`}
	byVacancy    = test{"TestStaleVacancy", `I4: [^\n]*`}
	byFoundings  = test{"TestFoundings", `I2: [^\n]*`}
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
	{"ignore lost peers", "next.go", `p.Facts.Record == nil || o.stillborn(p.Facts.Record) {`, `p.Facts.Record == nil || !p.Live {`, bySimulation},
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
	{"start as founder again", "next.go", `case l.Started != "" || l.Role != RoleJoiner && l.Role != RoleFounder:`, `case l.Role != RoleJoiner && l.Role != RoleFounder:`, bySimulation},
	{"start as founder although replaced", "next.go", `case o.replacedAs(r) != "":`, `case o.replacedAs(r) == "-":`, byStories},
	{"resume although removed", "next.go", `case o.Disk.WAL && o.Disk.Ledger.Record != nil && o.removedBy(o.Disk.Member) != "":`, `case o.removedBy(o.Disk.Member) == "-":`, byStories},
	{"join although removed", "next.go", `if by := o.removedBy(id); by != "" {`, `if by := o.removedBy(id); by == "-" {`, byStories},
	{"accept another disk's admission", "next.go", `if ad.Disk == o.Claim.Disk && ad.Slot == o.Claim.Slot`, `if ad.Slot == o.Claim.Slot`, byStories},
	{"accept an old admission", "next.go", ` && o.removedBy(ad.ID) == "" {`, ` {`, byStories},
	{"keep another's admission", "next.go", `l.Role == RoleJoiner && l.Join != d.Member`, `l.Role == "-"`, byStories},
	{"ignore rivals", "next.go", `if a, stop := o.rivalry(); stop {`, `if a, stop := o.rivalry(); stop && a.Kind == "-" {`, bySimulation},
	{"yield what is not blank", "next.go", `case pristine:`, `case o.Config.Yields:`, bySimulation},
	{"a running rival comes before yielding", "next.go", `case pristine:`, `case pristine && !f.Running:`, byStories},
	{"take the slot of a lost member", "next.go", `case f.past():`, `case f.past() && p.Live:`, byStories},
	{"forget who held a slot", "next.go", `if node != o.Node {`, `if node == "-" {`, byStories},
	{"start beside a twin", "next.go", `case o.Twin != "" && !o.Member.Running:`, `case o.Twin == "-":`, byStories},
	{"resume before listening", "next.go", `case o.Early && `, `case false && o.Early && `, byStories},
	{"repair with any record", "next.go", ` && f.CID == o.Disk.ClusterID {`, ` {`, bySimulation},
	{"replace without asking the holder", "sim_act_test.go", `func() { n.confirm(a) }, `, ``, byVacancy},
	{"replace without a quorum", "steady.go", `case healthy <= voters/2:`, `case healthy < 0:`, bySimulation},
	{"replace a connected member", "steady.go", `	case m.Connected:
		return nil, fmt.Sprintf("slot %s has no data`, `	case healthy < 0:
		return nil, fmt.Sprintf("slot %s has no data`, byStories},
	{"replace a disk with data", "steady.go", `case f.Phase == PhaseVacant:`, `case f.Phase == PhaseVacant || f.Phase == PhaseData && !m.Connected:`, byStories},
	{"never heed a stillborn founding", "founding.go", `moved > len(r.Charter.Seats)/2`, `moved > len(r.Charter.Seats)`, byStories},
	{"stillborn after one move", "founding.go", `moved > len(r.Charter.Seats)/2`, `moved > 0`, byStories},
	{"circles of parents", "next.go", ` && p.Facts.Record.Generation < child.Generation {`, ` {`, byCircle},
	{"never promote", "steady.go", `case listed && m.Learner && f.Running && f.Member == m.ID:`, `case listed && m.Learner && f.Running && f.Member == 0:`, bySimulation},
	{"two holders stop the leader", "steady.go", `case found == nil || stronger(*f, p.Node, *found.Facts, found.Node):`, `case found != nil:
			return nil, "two"
		default:
			found = &p
		case false:`, bySimulation},
}

// TestMutants shows that the tests see what each guard is for: without the guard, they fail.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package once for each guard")
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
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

func (m mutant) run(t *testing.T) (string, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		t.Fatalf("%s has the text %d times, want once: %s", m.file, n, m.old)
	}
	dir := t.TempDir()
	patched, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{patched: []byte(strings.Replace(string(src), m.old, m.new, 1)), overlay: list} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay="+overlay, "-run=^"+m.by.name+"$", ".")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
