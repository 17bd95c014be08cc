package health

import (
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// releasing is n1 of a cluster of three that was taken over. holdfast has filled its disk, so nothing on it shows
// another program.
func releasing(program plan.Program, token string) (ClusterStatus, Releasing) {
	f := sound()
	f.adopted()
	for i := range f.Status.Nodes {
		f.node(i).Volume.Path = "/mnt/" + f.node(i).Volume.Slot
	}
	f.Status.Judge(nil)
	return f.Status, Releasing{Adopted: &plan.Adoption{Program: program, Token: token, Cluster: 7}, Path: "/mnt/a", Data: "/mnt/a/etcd",
		Own: "etcd-a", To: "3.7.3", Voters: 3,
		Etcd: &EtcdStatus{Status: plan.Status{Version: "3.7.3", ClusterVersion: "3.7.0", StorageVersion: "3.7.0"}}}
}

// A member whose disk was replaced can also be given back: the record says to which program.
func TestReleaseOfAFilledDisk(t *testing.T) {
	names := []string{"etcd-a", "etcd-b", "etcd-c"}
	missing := "read etcd-manager's state: stat /mnt/a/state: no such file or directory"
	for name, tc := range map[string]struct {
		program plan.Program
		token   string
		change  func(*Releasing)
		want    plan.Program
		data    string
		why     string // of the refusal
	}{
		"plain etcd":                 {program: plan.PlainEtcd, want: plan.PlainEtcd, data: "/mnt/a/etcd"},
		"plain etcd, an old record":  {want: plan.PlainEtcd, data: "/mnt/a/etcd"},
		"etcd-manager":               {program: plan.EtcdManager, token: "tok", change: func(in *Releasing) { in.Token, in.Names = "tok", names }, want: plan.EtcdManager},
		"etcd-manager, old record":   {token: "tok", change: func(in *Releasing) { in.Token, in.Names = "tok", names }, want: plan.EtcdManager},
		"etcd-manager, and https":    {program: plan.EtcdManager, token: "tok", change: func(in *Releasing) { in.Token, in.Names, in.Secured = "tok", names, "https://{slot}.x:2381" }, want: plan.EtcdManager, why: "where no member would find it"},
		"plain etcd, and https":      {program: plan.PlainEtcd, change: func(in *Releasing) { in.Secured = "https://{slot}.x:2381" }, want: plan.PlainEtcd, data: "/mnt/a/etcd"},
		"no state":                   {program: plan.EtcdManager, token: "tok", change: func(in *Releasing) { in.Problem = missing }, want: plan.EtcdManager, why: "`scp n2:/mnt/b/state /mnt/a/state`"},
		"another cluster's state":    {program: plan.EtcdManager, token: "tok", change: func(in *Releasing) { in.Token, in.Names = "events", names }, want: plan.EtcdManager, why: "is of the cluster events, and this is tok"},
		"a state without the member": {program: plan.EtcdManager, token: "tok", change: func(in *Releasing) { in.Token, in.Names = "tok", names[1:] }, want: plan.EtcdManager, why: "does not name member etcd-a"},
		"holdfast's own cluster":     {change: func(in *Releasing) { in.Adopted = nil }, why: "never held another program's data"},
		"a disk that was taken over": {program: plan.PlainEtcd, change: func(in *Releasing) { in.Origin = &plan.Origin{Program: plan.PlainEtcd} }, want: plan.PlainEtcd, data: "/mnt/a"},
	} {
		s, in := releasing(tc.program, tc.token)
		if tc.change != nil {
			tc.change(&in)
		}
		r := AssessRelease(s, in)
		said := strings.Join(r.Why, "; ")
		if r.Program != tc.want || r.Data != tc.data && tc.why == "" || (said == "") != (tc.why == "") || !strings.Contains(said, tc.why) {
			t.Errorf("%s: got %s, data %q, %q, want %s, %q, %q", name, r.Program, r.Data, said, tc.want, tc.data, tc.why)
		}
		if tc.want != "" && !slices.Equal(r.Rest, []string{"n2", "n3"}) {
			t.Errorf("%s: the rest is %q", name, r.Rest)
		}
	}
}

// A node that does not answer may run a member, so it does not count as one that was given back.
func TestReleaseWithNodesUnheard(t *testing.T) {
	for name, tc := range map[string]struct {
		change        func(*ClusterStatus)
		rest, unknown string
	}{
		"all answer":     {func(*ClusterStatus) {}, "n2 n3", ""},
		"one is silent":  {func(s *ClusterStatus) { s.Nodes[1].Reached = false }, "n3", "slot b (n2)"},
		"two are silent": {func(s *ClusterStatus) { s.Nodes[1].Reached, s.Nodes[2].Reached = false, false }, "", "slot b (n2) slot c (n3)"},
		"one is drained": {func(s *ClusterStatus) { s.Nodes[1].Etcd = nil }, "n3", ""},
		"one is gone":    {func(s *ClusterStatus) { s.Nodes = slices.Delete(s.Nodes, 1, 2) }, "n3", "slot b"},
	} {
		s, in := releasing(plan.PlainEtcd, "")
		tc.change(&s)
		r := AssessRelease(s, in)
		if rest, unknown := strings.Join(r.Rest, " "), strings.Join(r.Unknown, " "); rest != tc.rest || unknown != tc.unknown {
			t.Errorf("%s: got the rest %q, unknown %q, want %q, %q", name, rest, unknown, tc.rest, tc.unknown)
		}
	}
}

// A member that has just started does not report the version of its data yet. That changes soon; data that is too new
// does not.
func TestReleaseThatIsPossibleSoon(t *testing.T) {
	for version, want := range map[string]struct {
		soon bool
		why  string
	}{"": {true, "ask again in a few seconds"}, "3.8.0": {false, "the data here is still that of etcd 3.8.0"}, "3.7.0": {}} {
		s, in := releasing(plan.PlainEtcd, "")
		in.Etcd.StorageVersion = version
		r := AssessRelease(s, in)
		if said := strings.Join(r.Why, "; "); r.Soon != want.soon || (said == "") != (want.why == "") || !strings.Contains(said, want.why) {
			t.Errorf("data of %q: got %q, soon %v, want %q, %v", version, said, r.Soon, want.why, want.soon)
		}
	}
}
