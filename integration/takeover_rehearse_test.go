package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/integration"
	"holdfast/integration/hosts"
)

// rehearsed are the fields of `holdfast takeover rehearse` that the story reads.
type rehearsed struct {
	Stopped string `json:"stopped"`
	Same    bool   `json:"same_ids"`
	Acked   int    `json:"acknowledged_writes"`
	Lost    int    `json:"lost_writes"`
	Real    []struct {
		ID string `json:"id"`
	} `json:"real_members"`
	Hashes []struct {
		Hash uint32 `json:"hash_kv"`
	} `json:"hashes"`
	Steps []struct {
		Slot string `json:"slot"`
	} `json:"steps"`
}

// rehearse rehearses. It checks that nothing is left, and that the exit code shows the success.
func rehearse(t *testing.T, n *integration.Node, args ...string) (r rehearsed) {
	t.Helper()
	temp, err := os.MkdirTemp("", "hf-") // t.TempDir is too long for the path of a unix socket
	must(t, err)
	defer os.RemoveAll(temp)
	out := n.Command(append([]string{"takeover", "rehearse", "-o", "json", "--dir", temp, "--stop.hold", "5s"}, args...)...)
	if err := json.Unmarshal([]byte(out.Out), &r); err != nil || out.Code != map[bool]int{true: 1}[r.Stopped != ""] {
		t.Fatalf("rehearse: %v, %+v", err, out)
	}
	left, err := os.ReadDir(temp)
	if must(t, err); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	return r
}

// through checks that a rehearsal of three members succeeded, and knows the cluster's real IDs.
func (r rehearsed) through(t *testing.T, ids []string) {
	t.Helper()
	slots := map[string]int{}
	for _, s := range r.Steps {
		slots[s.Slot]++
	}
	var real []string
	for _, m := range r.Real {
		real = append(real, m.ID)
	}
	slices.Sort(real)
	if r.Stopped != "" || r.Lost != 0 || r.Acked < 100 || slots["a"] != 2 || slots["b"] != 2 || slots["c"] != 2 ||
		!slices.Equal(real, ids) {
		t.Errorf("want 2 steps of each member, all writes, and the members %v; got %+v", ids, r)
	}
	if len(r.Hashes) != 3 || r.Hashes[0] != r.Hashes[1] || r.Hashes[0] != r.Hashes[2] {
		t.Errorf("got the hashes %v", r.Hashes)
	}
}

// A takeover and its way back are rehearsed beside the live cluster, with the backup that a node has made, and with
// copies of all members, which keep their IDs. The cluster notices nothing. A rehearsal that cannot succeed says why.
func TestRehearsal(t *testing.T) {
	if err := hosts.Check(); err != nil {
		t.Skip(err)
	}
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	if out := n.Holdfast("etcdctl", "--endpoints", n.ClientURL(), "put", "before", "it"); out.Code != 0 {
		t.Fatalf("put: %+v", out)
	}
	done(t, n, "snapshot", "save")
	var ids []string
	for _, n := range c.Nodes {
		self, err := n.Self()
		must(t, err)
		ids = append(ids, self.Etcd.Member.String())
	}
	slices.Sort(ids)
	r := rehearse(t, n)
	if r.through(t, ids); r.Same {
		t.Error("a backup has no log, and it says that its members kept their IDs")
	}
	c.Serving()
	var copies []string
	for i, n := range c.Nodes {
		n.Stop()
		dir := filepath.Join(c.Dir, fmt.Sprintf("copy%d", i))
		must(t, os.CopyFS(filepath.Join(dir, "member"), os.DirFS(filepath.Join(n.Volume(), "etcd", "member"))))
		copies = append(copies, dir)
	}
	r = rehearse(t, n, copies...)
	if r.through(t, ids); !r.Same {
		t.Error("members of copies did not keep their IDs")
	}
	if r = rehearse(t, n, copies[:2]...); !strings.Contains(r.Stopped, "3 members, and 2 directories") {
		t.Errorf("with two copies of three: got %+v", r)
	}
}
