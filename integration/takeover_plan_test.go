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
	"holdfast/integration"
)

// planned are the fields of `holdfast takeover plan` that the story reads.
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

// plan returns the plan of a seat, and checks that the exit code agrees with it.
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

// blocking returns the codes of the obstacles.
func (p planned) blocking() (codes []string) {
	for _, f := range p.Findings {
		if f.Blocks {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// While plain etcd runs, the plan names its members, and the obstacles until these are gone. It changes nothing. What
// it says about the cluster is what the takeover finds.
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
	done(t, s.node, "snapshot", "save", "--endpoints", s.url)
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
	integration.Until(t, time.Minute, "the takeover has what the plan said", func() error {
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

// While etcd-manager runs, the plan for its own flags finds its volume, its token and the members. The only obstacle
// is a missing backup, until one is made as docs/migrate-etcd-manager.md says.
func TestPlanOfEtcdManager(t *testing.T) {
	f := newFarm(t, false)
	n := f.seats[0].node
	flagged := func(more string) (string, error) {
		t.Helper()
		args := append(f.flags(), f.config(), more)
		out, err := n.Host.Command(t.Context(), filepath.Join(n.Dir, "bin", "etcd-manager"), args...).Output()
		return string(out), err
	}
	text, err := flagged("--plan")
	t.Logf("%v\n%s", err, text)
	for _, want := range []string{"which etcd-manager has made", "data/", "etcd-a", "etcd-b", "etcd-c", "cluster version 3.6.0",
		"this machine", "backup-missing: no verified backup"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q", want)
		}
	}
	for _, never := range []string{"has no address", "does not answer", "would not trust", "another program listens", "not tell"} {
		if strings.Contains(text, never) {
			t.Errorf("it says %q", never)
		}
	}
	if want := fmt.Sprintf("snapshot save --config FILE --endpoints https://127.0.0.1:%d --cacert", f.kops.client); err == nil ||
		!strings.Contains(text, want) || !strings.Contains(text, "in the way: 1 of these") {
		t.Errorf("want one thing in the way, and %q: %v", want, err)
	}
	config, err := flagged("--print-config")
	must(t, err)
	file, user := filepath.Join(n.Dir, "printed.yaml"), filepath.Join(n.Dir, "kube-apiserver")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	must(t, os.Mkdir(user, 0o700))
	writePair(t, user, signed(t, f.pki, "etcd-clients-ca", "kube-apiserver"))
	pair := filepath.Join(user, "pair.pem")
	if out, err := n.Host.Command(t.Context(), n.Binary, "snapshot", "save", "--config", file,
		"--endpoints", fmt.Sprintf("https://127.0.0.1:%d", f.kops.client), "--cacert", filepath.Join(f.pki, "etcd-clients-ca.crt"),
		"--cert", pair, "--key", pair).CombinedOutput(); err != nil {
		t.Fatalf("save: %v\n%s", err, out)
	}
	if text, err = flagged("--plan"); err != nil || !strings.Contains(text, "nothing is in the way") {
		t.Errorf("with a backup: %v\n%s", err, text)
	}
	f.verify()
}

// tree returns the names below a directory, without etcd's logs and snapshots, which change while it runs.
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
