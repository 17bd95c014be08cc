package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/snapshot"
)

// The marks that etcd-manager wrote beside backups over the years, by the name of the backup: as jsonpb and protojson
// write them, with names that a person has given, and without fields that were added later
// (kubernetes-sigs/etcd-manager, pkg/backup/store.go, pkg/etcd/json.go).
var managersMarks = map[string]string{
	"2019-05-07T18:28:01Z-000977": `{"etcdVersion":"3.2.24","timestamp":"1557253681","clusterSpec":{"memberCount":1,"etcdVersion":"3.2.24"}}`,
	"2021-11-30T00:00:00Z-000000": `{"etcd_version": "3.4.13", "timestamp": 1638230400}`,
	"2026-07-01T00:15:03Z-000042": "{\n  \"etcdVersion\":  \"3.6.11\",\n  \"timestamp\":  \"1782864903\",\n  \"clusterSpec\":  {\n    \"memberCount\":  3,\n    \"etcdVersion\":  \"3.6.11\"\n  }\n}",
	"before-upgrade_to-1.34":      `{"etcdVersion": "3.5.30", "timestamp": "1751328903"}`,
}

// holdfast takes over a store that etcd-manager has used for years. Its backups are listed and proven, broken ones are
// shown as such, and a forgotten command in it is not carried out. A new command of etcd-manager-ctl is carried out
// once.
func TestStoreOfEtcdManager(t *testing.T) {
	story(t)
	c := cluster(t, alone)
	n := c.Nodes[0]
	control := filepath.Join(c.Store, "control")
	forgotten := queue(t, c, "2019-05-07T18:28:01Z-000977", time.Date(2019, 5, 8, 9, 10, 11, 0, time.UTC))
	must(t, os.WriteFile(filepath.Join(control, "etcd-cluster-spec"), []byte(`{"memberCount": 3, "etcdVersion": "3.6.11"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(control, "etcd-cluster-created"), []byte(`{"timestamp":1638935701000000000}`), 0o600))
	c.Start()
	c.Until(patience, "etcd-manager's cluster in the store vetoes a founding", func() error {
		s, err := n.Self()
		if err == nil && (!strings.Contains(s.Why, "control/etcd-cluster-created") || !strings.Contains(s.Why, "`holdfast found --new`")) {
			err = fmt.Errorf("%s: %s", s.Action, s.Why)
		}
		return err
	})
	done(t, n, "found", "--new")
	c.Serving()
	name := beforeAndAfter(t, c)
	plain, packed := filepath.Join(c.Dir, "plain.db"), filepath.Join(c.Dir, "etcd.backup.gz")
	unpack(t, filepath.Join(c.Store, name, "etcd.backup.zst"), plain)
	repack(t, plain, packed)
	data, err := os.ReadFile(packed)
	must(t, err)
	put := func(name, file string, data []byte) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Join(c.Store, name), 0o700))
		must(t, os.WriteFile(filepath.Join(c.Store, name, file), data, 0o600))
	}
	for name, mark := range managersMarks {
		put(name, "etcd.backup.gz", data)
		put(name, "_etcd_backup.meta", []byte(mark))
	}
	const unmarked, torn, untold = "2023-01-01T00:00:00Z-000001", "2023-01-01T00:15:00Z-000002", "2023-01-01T00:30:00Z-000003"
	put(unmarked, "etcd.backup.gz", data) // etcd-manager died before it wrote the mark
	put(torn, "etcd.backup.gz", data[:len(data)/2])
	put(torn, "_etcd_backup.meta", []byte(managersMarks["before-upgrade_to-1.34"]))
	put(untold, "etcd.backup.gz", data)
	put(untold, "_etcd_backup.meta", nil)

	listed := map[string]snapshot.Backup{}
	var all []snapshot.Backup
	ask(t, n, &all, "snapshot", "list", "-o", "json")
	for _, b := range all {
		listed[b.Name] = b
	}
	created := map[string]int64{"2019-05-07T18:28:01Z-000977": 1557253681, "2021-11-30T00:00:00Z-000000": 1638230400, "2026-07-01T00:15:03Z-000042": 1782864903, "before-upgrade_to-1.34": 1751328903}
	for name := range managersMarks {
		if b := listed[name]; !b.Legacy || b.Problem != "" || b.Created.Unix() != created[name] || b.EtcdVersion == "" {
			t.Errorf("%s is listed as %+v", name, b)
		}
		if o := n.Command("snapshot", "verify", name); o.Code != 0 || !strings.Contains(o.Out, "good: revision") {
			t.Errorf("verify %s: exit code %d: %s%s", name, o.Code, o.Out, o.Err)
		}
	}
	for _, name := range []string{unmarked, untold} {
		if b := listed[name]; b.Name == "" || b.Problem == "" {
			t.Errorf("%s is listed as %+v", name, b)
		}
	}
	for _, name := range []string{unmarked, untold, torn} {
		refused(t, n, "nothing was changed", "restore", name, "--yes")
	}

	says := func(what string, texts ...string) {
		t.Helper()
		c.Until(patience, what, func() error {
			s, err := n.Status()
			for _, text := range texts {
				if !strings.Contains(strings.Join(health.Texts(s.Findings), "\n"), text) {
					return fmt.Errorf("%q, %w", health.Texts(s.Findings), err)
				}
			}
			return nil
		})
	}
	again, err := os.ReadFile(forgotten)
	must(t, err)
	says("the forgotten order is shown", "2019-05-08T09:10:11Z-000000", "restore.foreign-commands is false", "etcd-manager-ctl delete-command")
	c.Set("restore.foreign-commands", true)
	restart := func() {
		t.Helper()
		c.Stop()
		c.Start()
		c.Serving()
	}
	restart()
	gone(t, c, forgotten)
	says("why the forgotten order is deleted", "2019-05-08T09:10:11Z-000000", "older than the present generation", "was deleted")
	missing := queue(t, c, "2020-02-30T00:00:00Z-000000", time.Now())
	n.Look()
	gone(t, c, missing)
	says("why an order for a backup that is not there is deleted", filepath.Base(filepath.Dir(missing)), "not found")
	order := queue(t, c, "before-upgrade_to-1.34", time.Now().Add(time.Second)) // with another name than the last one
	n.Look()
	in := func(want uint64) {
		t.Helper()
		c.Until(time.Minute, "the cluster is in generation "+strconv.FormatUint(want, 10), func() error {
			s, err := n.Self()
			if err == nil && (s.Record == nil || s.Record.Generation != want) {
				err = fmt.Errorf("%s: %s", s.Action, s.Why)
			}
			return err
		})
		c.Serving()
	}
	in(2)
	gone(t, c, order)
	holdsOnly(t, c)
	put(filepath.Join("control", filepath.Base(filepath.Dir(order))), "_command.json", again)
	n.Look()
	c.Until(patience, "what was carried out is not carried out again", func() error {
		if _, err := os.Stat(order); err == nil {
			return fmt.Errorf("it is there still")
		}
		return nil
	})
	restart() // a deletion is shown for an hour
	c.Healthy()
	in(2)
	for _, file := range []string{"etcd-cluster-spec", "etcd-cluster-created"} {
		if _, err := os.Stat(filepath.Join(control, file)); err != nil {
			t.Error(err)
		}
	}
}

// queue leaves a command to restore a backup in the store, as etcd-manager-ctl does (kubernetes-sigs/etcd-manager,
// cmd/etcd-manager-ctl and pkg/commands/vfs.go), and returns its file.
func queue(t *testing.T, c *integration.Cluster, backup string, at time.Time) string {
	t.Helper()
	file := filepath.Join(c.Store, "control", at.UTC().Format(time.RFC3339)+"-000000", "_command.json")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, fmt.Appendf(nil, `{
  "timestamp":  "%d",
  "restoreBackup":  {
    "clusterSpec":  {
      "memberCount":  3,
      "etcdVersion":  "3.5.9"
    },
    "backup":  "%s"
  }
}`, at.UnixNano(), backup), 0o600))
	return file
}

// gone waits until a command was deleted.
func gone(t *testing.T, c *integration.Cluster, order string) {
	t.Helper()
	c.Until(patience, "the command is deleted", func() error {
		if _, err := os.Stat(order); !os.IsNotExist(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
