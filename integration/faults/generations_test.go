package faults

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/snapshot"
)

// How a generation ends in the middle of faults.
const (
	endRestore = "restore" // confirmed by its leader, or abandoned by its voters where a fault has taken the leader
	endRecover = "recover" // two disks are lost for good, and the survivor continues
)

// disturbances are the faults while a restore is under way.
var disturbances = []Kind{Kill, Pause, Stutter, Loss, Gossip, Peers, HandOver, Stop, NoEC2}

// Generations end in the middle of faults, by restores and by a recovery. Before that, a machine that shares nothing
// with the cluster but its store tries to end one. Each generation is linearizable. What the leader of an ended
// generation acknowledged is in the logs that its members have set aside.
func TestGenerationsUnderFaults(t *testing.T) {
	real(t)
	if *seed != 0 {
		for _, end := range []string{endRestore, endRecover} {
			t.Run(fmt.Sprintf("%s %d", end, *seed), func(t *testing.T) { generations(t, *seed, end) })
		}
		return
	}
	for _, end := range tier.Share(t, 2, []string{endRestore, endRecover}) {
		seed := map[string]uint64{endRestore: 7, endRecover: 8}[end]
		t.Run(fmt.Sprintf("%s %d", end, seed), func(t *testing.T) { generations(t, seed, end) })
	}
}

func generations(t *testing.T, seed uint64, end string) {
	t.Logf("to see this run again: go test ./integration/faults -run TestGenerationsUnderFaults -count=1 -v -args -seed %d -length %s", seed, *length)
	lg := logger(t, filepath.Join(t.TempDir(), "checker.log"))
	dir := "there is no such directory yet"
	nothingStays(t, &dir)
	r := Found(t, binary, lg, roomy)
	dir = filepath.Dir(r.Dir)
	g := r.registers()
	all := slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k == Lose || k == Full })
	faults := Draw(seed, *length, all).Faults
	half := len(faults) / 2

	r.suffer(faults[:half])
	saved := r.save()
	backup := r.content(saved.Content.Revision)
	r.drill(faults[half])
	ending := clusters(g.ops)
	if len(ending) != 1 {
		t.Fatalf("generations %x have answered before any has ended", ending)
	}
	first := map[string][]string{}
	led := false
	if end == endRestore {
		led = r.restore(saved.Name, Fault{Kind: disturbances[seed%uint64(len(disturbances))], Node: int(seed % nodes), For: 3 * time.Second, Amount: 10})
		first = backup
	} else {
		r.lose()
	}
	r.recover()
	r.suffer(faults[half+1:])
	r.recover()
	g.stop()
	r.equal()
	last := r.content(0)
	r.cluster.Kill()

	answered := clusters(g.ops)
	if len(answered) != 2 {
		t.Fatalf("generations %x have answered, want two", answered)
	}
	if end == endRecover { // nobody can say how much of what was acknowledged the survivor knew
		for key := range last {
			first[key] = []string{""}
		}
		for _, op := range g.ops {
			if op.put {
				first[op.key] = append(first[op.key], op.value)
			}
		}
	}
	g.ops = append(g.ops, final(answered[1], last, g.ops)...)
	empty := map[string][]string{}
	for key := range last {
		empty[key] = []string{""}
	}
	for id, before := range map[uint64]map[string][]string{answered[0]: empty, answered[1]: first} {
		if err := linearizable(g.ops, id, before); err != nil {
			t.Error(err)
		}
	}
	r.say("%d requests; acknowledged puts: %d in the generation that ended, %d in the next one", len(g.ops), g.acknowledged(answered[0]), g.acknowledged(answered[1]))
	if !led {
		return
	}
	lost, err := missing(lg, g.ops, answered[0], r.asides())
	if err != nil {
		t.Fatal(err)
	}
	if len(lost) > 0 {
		t.Errorf("%d puts were acknowledged in the generation that its leader ended, and are in no log of it: %+v", len(lost), lost)
	}
}

// suffer lets the faults befall the cluster, one after the other, and waits until it is healthy.
func (r *Run) suffer(faults []Fault) {
	r.t.Helper()
	for _, f := range faults {
		r.wait(f.Wait, nil)
		r.inflict(f)
	}
	r.recover()
}

// save saves a backup with the help of any node.
func (r *Run) save() (saved snapshot.Meta) {
	r.t.Helper()
	r.cluster.Until(time.Minute, "a backup is saved", func() error {
		o := r.cluster.Nodes[0].Command("snapshot", "save", "-o", "json")
		if o.Code != 0 {
			return fmt.Errorf("exit code %d: %s", o.Code, o.Err)
		}
		return json.Unmarshal([]byte(o.Out), &saved)
	})
	return saved
}

// drill has a machine that shares nothing with the cluster but its store declare the whole cluster lost, twice, while
// something goes wrong. The second time the machine overrules every objection.
func (r *Run) drill(f Fault) {
	r.t.Helper()
	bastion := r.cluster.Place(r.site.Launch(zones[0]))
	r.cluster.Nodes = slices.DeleteFunc(r.cluster.Nodes, func(n *integration.Node) bool { return n == bastion })
	bastion.Configure()
	disks := ""
	if leads := r.leader(); leads >= 0 {
		if s, err := r.cluster.Nodes[leads].Self(); err == nil && s.Volume != nil {
			disks = s.Volume.Disk
		}
	}
	said := make(chan []integration.Output, 1)
	go func() {
		args := []string{"restore", "latest", "--lost", strings.Join(slots, ","), "--yes", "--timeout", "20s"}
		said <- []integration.Output{bastion.Command(args...), bastion.Command(append(args, "--overrule", disks)...)}
	}()
	r.inflict(f)
	for _, o := range <-said {
		r.say("the drill: exit code %d: %s", o.Code, strings.TrimSpace(o.Err))
		if o.Code == 0 {
			r.t.Errorf("a machine that has only the store has ended the generation: %s", o.Out)
		}
	}
	r.recover()
}

// restore restores a backup while something goes wrong. It tries again where the fault was too much, and reports
// whether the leader ended the generation.
func (r *Run) restore(name string, f Fault) (led bool) {
	r.t.Helper()
	on := r.cluster.Nodes[(f.Node+1)%nodes]
	for {
		said := make(chan integration.Output, 1)
		go func() { said <- on.Command("restore", name, "--yes", "--timeout", "60s") }()
		r.wait(500*time.Millisecond, nil)
		r.inflict(f)
		r.wanted()
		r.supervise()
		o := <-said
		r.say("the restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
		if o.Code == 0 {
			break
		}
		if s, err := on.Self(); err == nil && s.Record != nil && s.Record.Generation == 2 {
			break // the command heard of less than what happened
		}
		if time.Since(r.begun) > 5*time.Minute {
			r.t.Fatal("it is never restored")
		}
		r.recover()
	}
	s, err := on.Self()
	if err != nil || s.Record == nil || s.Record.Restore == nil {
		r.t.Fatalf("after the restore %s is in %+v (%v)", on.Name, s.Record, err)
	}
	r.say("the generation ended: %t through its leader", s.Record.Restore.Led != nil)
	return s.Record.Restore.Led != nil
}

// lose takes the disks of all but one node for good and has that node recover the cluster.
func (r *Run) lose() {
	r.t.Helper()
	survivor := r.cluster.Nodes[0]
	var ends []func() error
	for i, n := range r.cluster.Nodes[1:] {
		v := victim{Run: r, Node: n, index: i + 1, fault: Fault{Kind: Lose}}
		end, err := v.lose(r.volumes[i+1])
		if err != nil {
			r.t.Fatal(err)
		}
		ends = append(ends, end)
	}
	var o integration.Output
	r.cluster.Until(2*time.Minute, "the survivor recovers the cluster", func() error {
		r.supervise()
		if o = survivor.Command("recover", "--lost", strings.Join(slots[1:], ","), "--yes"); o.Code != 0 {
			return fmt.Errorf("exit code %d: %s", o.Code, o.Err)
		}
		return nil
	})
	r.say("the recovery: %s", o.Out)
	for _, end := range ends {
		if err := end(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// final are reads of the last state, after all other requests.
func final(cluster uint64, content map[string][]string, ops []operation) (reads []operation) {
	end := time.Duration(0)
	for _, op := range ops {
		end = max(end, op.answer)
	}
	for key, values := range content {
		reads = append(reads, operation{client: registerOf, key: key, value: values[0], call: end + 1, answer: end + 2, cluster: cluster})
	}
	return reads
}

// The checker sees what must never happen in two generations.
func TestGenerationsRefused(t *testing.T) {
	empty := map[string][]string{"k": {""}}
	put := func(client int, value string, call, answer time.Duration, cluster uint64) operation {
		return operation{client: client, key: "k", put: true, value: value, call: call, answer: answer, cluster: cluster}
	}
	read := func(client int, value string, call, answer time.Duration, cluster uint64) operation {
		return operation{client: client, key: "k", value: value, call: call, answer: answer, cluster: cluster}
	}
	history := []operation{put(1, "x", 1, 2, 7), read(2, "x", 3, 4, 7), put(1, "y", 5, 6, 7), read(1, "x", 7, 8, 9), put(2, "z", 9, 10, 0)}
	for _, c := range []struct {
		name  string
		more  []operation
		of    uint64
		first map[string][]string
		ok    bool
	}{
		{"as it was", nil, 7, empty, true},
		{"the next one begins with its backup", nil, 9, map[string][]string{"k": {"x"}}, true},
		{"the next one begins with what a survivor had", nil, 9, map[string][]string{"k": {"", "x", "y"}}, true},
		{"a put without an answer happens late", []operation{read(1, "z", 30, 31, 9)}, 9, map[string][]string{"k": {"x"}}, true},
		{"the next one begins with something else", nil, 9, map[string][]string{"k": {"y"}}, false},
		{"a read goes back", []operation{read(1, "x", 7, 8, 7)}, 7, empty, false},
		{"a put is lost", []operation{read(1, "", 7, 8, 7)}, 7, empty, false},
		{"two serve at a time, and one sees what the other was told", []operation{read(1, "y", 20, 21, 9)}, 9, map[string][]string{"k": {"x"}}, false},
		{"nobody answered", nil, 8, empty, false},
	} {
		if err := linearizable(slices.Concat(history, c.more), c.of, c.first); (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	if _, err := missing(zap.NewNop(), history, 7, []string{t.TempDir()}); err == nil {
		t.Error("logs that are not there were read")
	}
}
