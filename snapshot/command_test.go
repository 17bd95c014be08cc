package snapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

func TestCommands(t *testing.T) {
	store := &observed{Store: snapshot.NewDir(t.TempDir())}
	if got, err := snapshot.Commands(t.Context(), store); err != nil || len(got) != 0 {
		t.Errorf("empty: got %+v, %v", got, err)
	}
	command := func(name, text string) { put(t, store, "control/"+name+"/_command.json", text) }
	const restore = `"restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.5.9"},"backup":"2019-05-07T18:28:01Z-000977"}`
	command("2019-05-07T18:31:00Z-000000", `{"timestamp":"1557253681000000000",`+restore+`}`)
	command("number", `{"timestamp":1557253680000000001,`+restore+`,"newKey":1}`)
	command("snake", `{"timestamp":"1557253680000000000","restore_backup":{"backup":"by-hand"}}`)
	command("2019-05-07T18:28:00Z-000001", `{`+restore+`}`)
	command("2019-05-07T18:28:00Z-000000", `{"createNewCluster":{}}`)
	command("broken", `{"timestamp":`)
	command("huge", strings.Repeat(" ", 1<<20+1))
	command("wrong-name", `{"timestamp":"1","restoreBackup":{"backup":"../../etc"}}`)
	command("no-name", `{"timestamp":"2","restoreBackup":{}}`)
	put(t, store, "control/etcd-cluster-spec", `{"memberCount":3}`)
	put(t, store, "control/etcd-cluster-created", "{}")
	put(t, store, "control/deep/er/_command.json", "{}")
	put(t, store, "control/_command.json", "{}")

	const backup = "2019-05-07T18:28:01Z-000977"
	named := time.Date(2019, 5, 7, 18, 28, 0, 0, time.UTC)
	wants := []struct {
		name    string
		time    time.Time
		backup  string
		problem string
	}{
		{"broken", time.Time{}, "", "decode _command.json: unexpected end of JSON input"},
		{"huge", time.Time{}, "", "larger than 1048576 bytes"},
		{"wrong-name", time.Unix(0, 1).UTC(), "", `restoreBackup.backup: "../../etc" cannot be the name`},
		{"no-name", time.Unix(0, 2).UTC(), "", `restoreBackup.backup: "" cannot be the name`},
		{"2019-05-07T18:28:00Z-000000", named, "", ""},
		{"snake", time.Unix(1557253680, 0).UTC(), "by-hand", ""},
		{"number", time.Unix(1557253680, 1).UTC(), backup, ""},
		{"2019-05-07T18:28:00Z-000001", named.Add(time.Microsecond), backup, ""},
		{"2019-05-07T18:31:00Z-000000", time.Unix(1557253681, 0).UTC(), backup, ""},
	}
	got, err := snapshot.Commands(t.Context(), store)
	if err != nil || len(got) != len(wants) {
		t.Fatalf("want %d commands, got %+v, %v", len(wants), got, err)
	}
	for i, want := range wants {
		g := got[i]
		if g.Name != want.name || !g.Time.Equal(want.time) || g.Backup != want.backup || !strings.Contains(g.Problem, want.problem) || (g.Problem == "") != (want.problem == "") {
			t.Errorf("command %d: want %+v, got %+v", i, want, g)
		}
	}

	for range 2 {
		must(t, snapshot.DeleteCommand(t.Context(), store, "snake"))
	}
	for _, name := range []string{"", "..", "a/b", ".hidden"} {
		if err := snapshot.DeleteCommand(t.Context(), store, name); err == nil {
			t.Errorf("DeleteCommand(%q): want an error", name)
		}
	}
	if got, err := snapshot.Commands(t.Context(), store); err != nil || len(got) != len(wants)-1 {
		t.Errorf("one deleted: want %d, got %d, %v", len(wants)-1, len(got), err)
	}

	down := errors.New("down")
	for _, op := range []string{"list", "get", "delete"} {
		store.refuse = func(o, _ string) error {
			if o == op {
				return down
			}
			return nil
		}
		_, err := snapshot.Commands(t.Context(), store)
		if op == "delete" {
			err = snapshot.DeleteCommand(t.Context(), store, "number")
		}
		if !errors.Is(err, down) {
			t.Errorf("without %s: want the store's error, got %v", op, err)
		}
	}
}
