package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
)

// planned is what `holdfast takeover plan` says, as far as the story reads it.
type planned struct {
	Cluster   string `json:"cluster_id"`
	Member    string `json:"member_id"`
	Slot      string `json:"slot"`
	Running   string `json:"running"`
	Obstacles int    `json:"obstacles"`
	Members   []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"members"`
	Findings []struct {
		Code   string `json:"code"`
		Blocks bool   `json:"blocks"`
		Text   string `json:"text"`
	} `json:"findings"`
}

// plan asks for the plan of a seat, and checks that the exit code says the same.
func (h *handover) plan(i int) (p planned) {
	h.t.Helper()
	n := h.seats[i].node
	n.Configure()
	out := n.Command("takeover", "plan", "-o", "json")
	if err := json.Unmarshal([]byte(out.Out), &p); err != nil || out.Code != map[bool]int{true: 1}[p.Obstacles > 0] {
		h.t.Fatalf("plan: %v, %+v", err, out)
	}
	return p
}

// blocking are the codes of what is in the way.
func (p planned) blocking() (codes []string) {
	for _, f := range p.Findings {
		if f.Blocks {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// While plain etcd runs, the plan names its members, and what is in the way until that is gone; it changes nothing. What
// it says of the cluster is what the takeover finds.
func TestPlanOfPlainEtcd(t *testing.T) {
	h := plainHandover(t, nil)
	s := h.seats[0]
	h.agreed("3.7")
	before := tree(t, s.data)
	p := h.plan(0)
	if got := p.blocking(); !slices.Equal(got, []string{"backup-missing"}) {
		t.Errorf("without a backup: got %v: %+v", got, p.Findings)
	}
	var names, ids []string
	for _, m := range p.Members {
		names, ids = append(names, m.Name), append(ids, m.ID)
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "infra0 infra1 infra2" || !slices.Contains(ids, p.Member) || p.Slot != s.slot ||
		!strings.HasSuffix(p.Running, "db") {
		t.Errorf("got %+v", p)
	}
	if out := s.node.Command("snapshot", "save", "--endpoints", s.url); out.Code != 0 {
		t.Fatalf("save: %+v", out)
	}
	if p = h.plan(0); p.Obstacles != 0 {
		t.Errorf("with a backup: got %+v", p.Findings)
	}
	other := h.seats[1]
	other.end()
	if got := h.plan(0).blocking(); !slices.Equal(got, []string{"member-silent"}) {
		t.Errorf("with a member that is away: got %v", got)
	}
	other.start()
	h.serves(other.url)
	if after := tree(t, s.data); !slices.Equal(before, after) {
		t.Errorf("the volume had %v, and has %v", before, after)
	}
	if _, err := os.Stat(s.node.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made: %v", s.node.Data, err)
	}
	h.take(0)
	until(t, time.Minute, "the takeover has what the plan said", func() error {
		var is health.Takeover
		out := s.node.Command("takeover", "status", "-o", "json")
		if err := json.Unmarshal([]byte(out.Out), &is); err != nil {
			return err
		}
		for _, m := range is.Members {
			if m.Ours && is.Cluster.String() == p.Cluster && m.Member.String() == p.Member {
				return nil
			}
		}
		return fmt.Errorf("want member %s of %s, got %s", p.Member, p.Cluster, out.Out)
	})
	h.give(0)
	h.verify()
}

// While etcd-manager runs, the plan of its own flags finds its volume, its token and the members, and no obstacle but
// what is really in the way.
func TestPlanOfEtcdManager(t *testing.T) {
	f := newFarm(t, false)
	n := f.seats[0].node
	args := append(append(f.flags(), f.config()), "--plan")
	out, err := n.Host.Command(t.Context(), filepath.Join(n.Dir, "bin", "etcd-manager"), args...).CombinedOutput()
	text := string(out)
	t.Logf("%v\n%s", err, text)
	for _, want := range []string{"which etcd-manager has made", "data/", "etcd-a", "etcd-b", "etcd-c", "cluster version 3.6.0",
		"this machine", "backup"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q", want)
		}
	}
	for _, never := range []string{"leads nowhere", "does not answer", "would not trust", "another program listens", "not tell"} {
		if strings.Contains(text, never) {
			t.Errorf("it says %q", never)
		}
	}
	f.verify()
}

// tree are the names below a directory, but for etcd's logs and snapshots, which come and go while it runs.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !strings.Contains(path, "/member/") {
			names = append(names, path)
		}
		return err
	}))
	return names
}
