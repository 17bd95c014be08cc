package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"holdfast/integration"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// Each node is backed up while all nodes are written to. Each backup has every write that was acknowledged before, and
// no half of one. Each can be restored with only zstd and etcd's own tool.
func TestSaveUnderLoad(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	for i, n := range slices.Concat(c.Nodes, c.Nodes) {
		w.More(50)
		before := w.Snapshot()
		var saved snapshot.Meta
		ask(t, n, &saved, "snapshot", "save", "-o", "json")
		// A command without the node's configuration names the node's store, too.
		if o := n.Holdfast("snapshot", "save", "--dry-run", "--control.socket", n.Socket()); !strings.Contains(o.Out, "to "+c.Store) {
			t.Errorf("save to %s, says %+v", c.Store, o)
		}
		dir := filepath.Join(c.Dir, fmt.Sprintf("restored-%d", i))
		restoreByHand(t, n, filepath.Join(c.Store, saved.Name, "etcd.backup.zst"), dir, "zstd", "-dq", "-o")
		found, entries := keysIn(t, filepath.Join(dir, "member", "snap", "db"))
		if err := before.Compare(found); err != nil {
			t.Errorf("backup of %s: %v", n.Name, err)
		}
		if entries != saved.Content.Keys {
			t.Errorf("backup of %s: got %d entries, its sidecar says %d", n.Name, entries, saved.Content.Keys)
		}
	}
	done(t, c.Nodes[0], "snapshot", "verify")
	w.Verify()
}

// restoreByHand restores the data of a backup into dir without holdfast: with etcdutl and a decompressor, whose last
// arguments are the file to write and the file to read.
func restoreByHand(t *testing.T, n *integration.Node, data, dir string, unpack ...string) {
	t.Helper()
	plain := dir + ".db"
	args := append(unpack[1:], plain, data)
	if out, err := exec.Command(unpack[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", unpack[0], strings.Join(args, " "), err, out)
	}
	if o := n.Holdfast("etcdutl", "snapshot", "restore", plain, "--data-dir", dir); o.Code != 0 {
		t.Fatalf("etcdutl snapshot restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	must(t, os.Remove(plain))
}

// keysIn returns the newest value of every key in a database of etcd, and the number of its entries.
func keysIn(t *testing.T, path string) (found map[string]string, entries int64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	found = map[string]string{}
	must(t, db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error { // in the order of revisions
			entries++
			var kv mvccpb.KeyValue
			if err := snapshottest.Decode(v, &kv); err != nil {
				return err
			}
			if found[string(kv.Key)] = string(kv.Value); len(k) == 18 { // a tombstone
				delete(found, string(kv.Key))
			}
			return nil
		})
	}))
	return found, entries
}

// Any etcd is backed up by its URLs, from a follower, into a store that no node looks after. Its backups are proven
// and pruned like any other.
func TestSaveOtherEtcd(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	endpoints := plainEtcd(t, c, 3)
	client := dialed(t, endpoints...)
	revision := int64(0)
	for i := range 100 {
		put, err := client.Put(t.Context(), fmt.Sprintf("key%03d", i), strconv.Itoa(i))
		must(t, err)
		revision = put.Header.Revision
	}
	n := c.Nodes[0]
	list := strings.Join(endpoints, ",")
	save := []string{"snapshot", "save", "--snapshot.store", c.Store, "--endpoints", list, "-o", "json"}
	if o := n.Holdfast(save...); o.Code == 0 || !strings.Contains(o.Err, "--cluster.name") {
		t.Errorf("save without a name for the cluster: exit code %d: %s", o.Code, o.Err)
	}
	save = append(save, "--cluster.name", "legacy")
	var saved snapshot.Meta
	o := n.Holdfast(save...)
	if err := json.Unmarshal([]byte(o.Out), &saved); err != nil || o.Code != 0 {
		t.Fatalf("save: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	status, err := client.Status(t.Context(), endpoints[0])
	must(t, err)
	if want := fmt.Sprintf("etcd-%x", status.Header.ClusterId); saved.Lineage != want || saved.Cluster != "legacy" || saved.Members != 3 || saved.Content.Revision != revision {
		t.Errorf("saved %+v, want cluster legacy, lineage %s, 3 members, revision %d", saved, want, revision)
	}
	members, err := client.MemberList(t.Context())
	must(t, err)
	for _, m := range members.Members {
		if m.ID == status.Leader && m.Name == saved.Slot {
			t.Errorf("saved from %s, which leads", saved.Slot)
		}
	}
	if o := n.Holdfast("snapshot", "verify", "latest", "--snapshot.store", c.Store, "--cluster.name", "legacy"); o.Code != 0 || !strings.Contains(o.Out, fmt.Sprintf("good: revision %d, ", revision)) {
		t.Errorf("verify: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := n.Holdfast("snapshot", "drill", "--snapshot.store", c.Store, "--cluster.name", "legacy"); o.Code != 0 || !strings.Contains(o.Out, "was restored and started") {
		t.Errorf("drill: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	for range 2 {
		if o := n.Holdfast(save...); o.Code != 0 {
			t.Fatalf("save: exit code %d: %s", o.Code, o.Err)
		}
	}
	keep := []string{"--snapshot.keep.all", "0s", "--snapshot.keep.hourly", "0s", "--snapshot.keep.daily", "0s", "--snapshot.keep.newest", "1"}
	if o := n.Holdfast(append(keep, "snapshot", "prune", "--snapshot.store", c.Store, "--cluster.name", "legacy")...); o.Code != 0 || !strings.Contains(o.Out, "2 backups removed") {
		t.Errorf("prune: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := n.Holdfast("snapshot", "list", "--snapshot.store", c.Store, "--cluster.name", "other"); o.Code != 0 || !strings.Contains(o.Out, "foreign: legacy") {
		t.Errorf("list as another cluster: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	// A member of another cluster among the endpoints is an error, and so are endpoints without a server.
	other := plainEtcd(t, c, 1)
	if o := n.Holdfast("snapshot", "save", "--snapshot.store", c.Store, "--cluster.name", "legacy", "--endpoints", list+","+other[0]); o.Code == 0 || !strings.Contains(o.Err, "two clusters") {
		t.Errorf("save of two clusters: exit code %d: %s", o.Code, o.Err)
	}
	if o := n.Holdfast("snapshot", "save", "--snapshot.store", c.Store, "--cluster.name", "legacy", "--endpoints", "http://"+c.Address(250)+":1"); o.Code == 0 || !strings.Contains(o.Err, "NOT saved") {
		t.Errorf("save of nobody: exit code %d: %s", o.Code, o.Err)
	}
}

// With the key, encrypted backups can be verified, drilled and restored. Without it, a command says how far it could
// verify, and can do nothing else.
func TestEncryptedBackups(t *testing.T) {
	story(t)
	key, err := age.GenerateX25519Identity()
	must(t, err)
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"snapshot.recipients": key.Recipient().String()}})
	c.Start()
	c.Serving()
	w := c.Write()
	w.More(50)
	n := c.Nodes[0]
	w.Stop()
	var saved snapshot.Meta
	ask(t, n, &saved, "snapshot", "save", "-o", "json")
	if !saved.Stored.Encrypted {
		t.Fatalf("saved %+v, want it encrypted", saved.Stored)
	}
	if o := n.Command("snapshot", "verify"); o.Code != 0 || !strings.Contains(o.Out, "good as far as its digest goes") {
		t.Errorf("verify without the key: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	refused(t, n, "snapshot.identity-file", "snapshot", "drill")
	file := filepath.Join(c.Dir, "key.txt")
	must(t, os.WriteFile(file, []byte(key.String()+"\n"), 0o600))
	with := []string{"--snapshot.identity-file", file}
	if o := n.Command(append(with, "snapshot", "verify")...); o.Code != 0 || !strings.Contains(o.Out, "good: revision") {
		t.Errorf("verify with the key: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	done(t, n, append(with, "snapshot", "drill")...)
	data := filepath.Join(c.Store, saved.Name, "etcd.backup.zst.age")
	flip(t, data)
	if o := n.Command("snapshot", "verify"); o.Code == 0 || !strings.Contains(o.Out, "BAD") {
		t.Errorf("verify of a damaged backup without the key: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
}

// etcd-manager can read backups in its format: its metadata, gzip, and etcd's trailer.
func TestManagerFormat(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"snapshot.format": "etcd-manager"}})
	w := c.Write()
	w.More(50)
	n := c.Nodes[0]
	before := w.Snapshot()
	var saved snapshot.Meta
	ask(t, n, &saved, "snapshot", "save", "-o", "json")
	w.Stop()
	text, err := os.ReadFile(filepath.Join(c.Store, saved.Name, "_etcd_backup.meta"))
	must(t, err)
	var meta struct {
		EtcdVersion string `json:"etcdVersion"`
		Timestamp   string `json:"timestamp"`
		ClusterSpec struct {
			MemberCount int    `json:"memberCount"`
			EtcdVersion string `json:"etcdVersion"`
		} `json:"clusterSpec"`
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields() // etcd-manager reads it with protojson, which refuses unknown fields
	if err := dec.Decode(&meta); err != nil || meta.ClusterSpec.MemberCount != 3 || meta.EtcdVersion != saved.EtcdVersion || meta.Timestamp != strconv.FormatInt(saved.Created.Unix(), 10) {
		t.Errorf("etcd-manager reads %+v (%v) from\n%s", meta, err, text)
	}
	packed := filepath.Join(c.Store, saved.Name, "etcd.backup.gz")
	dir := filepath.Join(c.Dir, "restored")
	restoreByHand(t, n, packed, dir, "sh", "-c", `gunzip -c "$1" > "$0"`)
	found, _ := keysIn(t, filepath.Join(dir, "member", "snap", "db"))
	if err := before.Compare(found); err != nil {
		t.Error(err)
	}
	done(t, n, "snapshot", "verify")
	// Backups that only etcd-manager wrote are read, and never pruned.
	legacy := filepath.Join(c.Store, "2021-05-07T18:28:01Z-000977")
	must(t, os.Mkdir(legacy, 0o700))
	for _, file := range []string{"etcd.backup.gz", "_etcd_backup.meta"} {
		data, err := os.ReadFile(filepath.Join(c.Store, saved.Name, file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(legacy, file), data, 0o600))
	}
	if o := n.Command("snapshot", "verify", filepath.Base(legacy)); o.Code != 0 || !strings.Contains(o.Out, fmt.Sprintf("revision %d", saved.Content.Revision)) {
		t.Errorf("verify of etcd-manager's: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := n.Command("snapshot", "prune"); o.Code != 0 || !strings.Contains(o.Out, "0 backups removed") {
		t.Errorf("prune: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := n.Command("snapshot", "list"); o.Code != 0 || !strings.Contains(o.Out, "etcd-manager's") {
		t.Errorf("list: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
}

// good returns the names of the backups that are listed without a problem.
func good(t *testing.T, n *integration.Node) []string {
	t.Helper()
	var all []snapshot.Backup
	ask(t, n, &all, "snapshot", "list", "-o", "json")
	names := map[string]bool{}
	for _, b := range all {
		if b.Problem == "" && !b.Foreign {
			names[b.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// saved waits until the schedule has made more backups than the store has now.
func more(t *testing.T, c *integration.Cluster, n *integration.Node, within time.Duration) {
	t.Helper()
	had := good(t, n)
	c.Until(within, "the schedule makes a backup", func() error {
		now := good(t, n)
		if len(now) == 0 || len(had) > 0 && now[len(now)-1] <= had[len(had)-1] {
			return fmt.Errorf("still %v", now)
		}
		return nil
	})
}

// TestUnreadableKey starts a node without its key file. The member serves, and the node says what it cannot do.
func TestUnreadableKey(t *testing.T) {
	story(t)
	key, err := age.GenerateX25519Identity()
	must(t, err)
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{
		"snapshot.recipients": key.Recipient().String(), "snapshot.identity-file": filepath.Join(t.TempDir(), "absent")}})
	c.Start()
	c.Serving()
	var saved snapshot.Meta
	ask(t, c.Nodes[0], &saved, "snapshot", "save", "-o", "json")
	if !saved.Stored.Encrypted {
		t.Errorf("saved %+v, want it encrypted", saved.Stored)
	}
}
