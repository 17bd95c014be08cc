package takeover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// fit is a machine with nothing in the way of a takeover from etcd-manager, while that runs.
func fit() Seen {
	cfg := config.Default()
	cfg.Cluster.Name, cfg.Cluster.Slots, cfg.Cluster.Adopt = "main", []string{"a", "b", "c"}, true
	cfg.Node.Name, cfg.Etcd.PeerURL = "n1", "https://etcd-{slot}.internal.test:2380"
	cfg.Gossip.Listen, cfg.Metrics.Listen = "10.0.0.1:3996", "10.0.0.1:2390"
	cfg.Etcd.ListenClientURLs, cfg.Etcd.ListenPeerURLs = []string{"https://10.0.0.1:4001"}, []string{"https://10.0.0.1:2380"}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := Seen{Config: cfg, Now: now, Taken: config.Endpoints(cfg)}
	s.Taken = slices.DeleteFunc(s.Taken, func(e config.Endpoint) bool { return e.Key == "metrics.listen" })
	told := &Told{Endpoint: "https://10.0.0.1:4001", Leader: 2, Version: "3.6.0"}
	for i, slot := range cfg.Cluster.Slots {
		told.Members = append(told.Members, embedded.ListedMember{ID: uint64(i + 1), Name: "etcd-" + slot,
			PeerURLs: []string{"https://etcd-" + slot + ".internal.test:2380"}})
	}
	s.Told = told
	s.Volumes = []Volume{{Slot: "a", Path: "/mnt/a", Running: "/mnt/a/data/t/member/snap/db",
		Origin: &plan.Origin{Program: plan.EtcdManager, Path: "data/t", Token: "t", Cluster: 7, Member: 1}}}
	backup := &snapshot.Backup{}
	backup.Name, backup.Created = "good", now.Add(-10*time.Minute)
	s.Store = Store{Newest: backup, Control: snapshot.Control{Created: true,
		Spec: &snapshot.ManagerSpec{Members: 3, EtcdVersion: "3.6.16"}}}
	s.Others = []Reach{{Slot: "b", URL: "https://etcd-b.internal.test:2380"}}
	return s
}

// codes are those of the findings, a ! after those that block.
func codes(p Plan) string {
	var all []string
	for _, f := range p.Findings {
		all = append(all, string(f.Code)+map[bool]string{true: "!"}[f.Blocks])
	}
	return strings.Join(all, " ")
}

// Each thing that is wrong is found, as what it is, and nothing else with it.
func TestJudge(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		change func(s *Seen)
		want   string // codes
		text   string // in one of the findings
	}{
		"nothing":          {func(*Seen) {}, "", ""},
		"configuration":    {func(s *Seen) { s.Refused = []error{broken} }, "config-refused!", "broken"},
		"adopt is not set": {func(s *Seen) { s.Config.Cluster.Adopt = false }, "decision!", "set cluster.adopt to true"},
		"pattern":          {func(s *Seen) { s.Config.Etcd.PeerURL = "https://m-{slot}.test:2380" }, "data! data! data!", "does not fit etcd.peer-url"},
		"slots":            {func(s *Seen) { s.Config.Cluster.Slots = []string{"a"} }, "slots!", "set cluster.slots to a,b,c"},
		"slots of tags":    {func(s *Seen) { s.Slots = broken }, "slots!", "broken"},
		"another slot":     {func(s *Seen) { s.Volumes[0].Slot = "b" }, "decision!", "give this volume the slot a"},
		"old":              {func(s *Seen) { s.Told.Version = "3.5.0" }, "data!", "bring every member to etcd 3.6 first"},
		"newer":            {func(s *Seen) { s.Told.Version = "3.99.0" }, "decision!", "run one with that etcd or a newer one"},
		"a learner":        {func(s *Seen) { s.Told.Members[2].Learner = true }, "decision! spec!", "is a learner"},
		"removed":          {func(s *Seen) { s.Told.Members = s.Told.Members[1:] }, "data! slots! spec!", "is not in its own list"},
		"queued command":   {func(s *Seen) { s.Store.Control.Commands = []string{"c1"} }, "decision!", "queued in the backup store (c1)"},
		"another's record": {func(s *Seen) { s.Store.Record = &plan.Record{Cluster: "main", Generation: 1, ID: "ff"} }, "decision!", "knows the cluster as"},
		"what went back": {func(s *Seen) {
			s.Store.Record, s.Store.Returned = &plan.Record{Cluster: "main", Generation: 1, ID: "ff"}, true
		}, "", ""},
		"store":             {func(s *Seen) { s.Store = Store{Err: broken} }, "store!", "broken"},
		"mark":              {func(s *Seen) { s.Store.Control.Created = false }, "mark-missing!", "founds an empty cluster"},
		"mark and spec":     {func(s *Seen) { s.Store.Control = snapshot.Control{} }, "mark-missing", "neither"},
		"spec":              {func(s *Seen) { s.Store.Control.Spec.Members = 5 }, "spec!", "says 5 members, and there are 3"},
		"no backup":         {func(s *Seen) { s.Store.Newest = nil }, "backup-missing!", "--endpoints https://10.0.0.1:4001 --cacert"},
		"old backup":        {func(s *Seen) { s.Store.Newest.Created = s.Now.Add(-3 * time.Hour) }, "backup-missing!", "older than 1h"},
		"port":              {func(s *Seen) { s.Taken = config.Endpoints(s.Config) }, "port-in-use!", "which is metrics.listen"},
		"gossip of another": {func(s *Seen) { s.Volumes[0].Origin.Program = plan.PlainEtcd; s.Volumes[0].Origin.Path = "." }, "port-in-use!", "gossip.listen"},
		"clients elsewhere": {func(s *Seen) { s.Config.Etcd.ListenClientURLs[0] = "https://10.0.0.1:2379" }, "client-address", "nobody listens"},
		"more than one reason": {func(s *Seen) { s.Config.Cluster.Adopt = false; s.Store.Control.Commands = []string{"c1"} },
			"decision! decision!", "queued in the backup store (c1)"},
		"name":        {func(s *Seen) { s.Others[0].Unknown = broken }, "name-unknown!", "broken"},
		"silent":      {func(s *Seen) { s.Others[0].Silent = broken }, "member-silent!", "broken"},
		"certificate": {func(s *Seen) { s.Others[0].Distrust = broken }, "certificate!", "broken"},
		"leader":      {func(s *Seen) { s.Told.Leader = 1 }, "leader", "take this machine over last"},
		"no data":     {func(s *Seen) { s.Volumes[0].Origin = nil }, "volume!", "/mnt/a"},
		"unseen":      {func(s *Seen) { s.Volumes, s.Unseen = nil, broken }, "volume!", "broken"},
		"two volumes": {func(s *Seen) { s.Volumes = append(s.Volumes, s.Volumes[0]) }, "volume!", "a node takes over one"},
		"held":        {func(s *Seen) { s.Volumes[0].Held = "held by n1" }, "volume-held!", "held by n1"},
		"obstacle":    {func(s *Seen) { s.Volumes[0].Origin.Obstacle = "state is missing" }, "data!", "state is missing"},
		"etcd is silent": {func(s *Seen) { s.Told, s.Silent = nil, broken; s.Volumes[0].Names = fit().Told.Members },
			"members-unknown", "broken"},
	} {
		s := fit()
		tc.change(&s)
		p := Judge(s)
		if got := codes(p); got != tc.want || !strings.Contains(fmt.Sprintf("%+v", p.Findings), tc.text) {
			t.Errorf("%s: got %q, want %q with %q in it:\n%+v", name, got, tc.want, tc.text, p.Findings)
		}
		if want := strings.Count(tc.want, "!"); p.Obstacles != want {
			t.Errorf("%s: got %d obstacles, want %d", name, p.Obstacles, want)
		}
	}
}

// The steps name what will be done, to what, and in which order.
func TestSteps(t *testing.T) {
	p := Judge(fit())
	text := strings.Join(p.Steps, "\n")
	at := -1
	for _, want := range []string{"you stop etcd-manager", "claims the volume /mnt/a as slot a", "cluster's record",
		"takes over the member 1", "data/t becomes etcd", "as the same member, 1 of cluster 7", "slot c, then b", "the freeze ends",
		"takeover release"} {
		i := strings.Index(text, want)
		if i <= at {
			t.Errorf("want %q, and after what is before it, in\n%s", want, text)
		}
		at = i
	}
	if p.Members[0].Own != true || p.Members[1].Leads != true || p.Cluster != "7" || p.Member != "1" {
		t.Errorf("got %+v", p)
	}
}
