package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/plan"
)

// ofThree has the pattern of the members that at makes. Their slots are 7, 9 and 11.
var ofThree = Disk{Names: Names{PeerURL: "http://m{slot}:2380"}}

// threeOf36 is a cluster of three members of etcd 3.6.
func threeOf36() lists { return lists{log: founded(), v3: all, raft: allVote} }

// data writes a data directory of etcd 3.6.
func (l lists) data(t *testing.T) string {
	t.Helper()
	dir := l.write(t)
	set(t, dir, schema.Cluster.Name(), schema.ClusterClusterVersionKeyName, "3.6.0")
	set(t, dir, schema.Meta.Name(), schema.MetaTermKeyName, "\x00\x00\x00\x00\x00\x00\x00\x01")
	return dir
}

// onManagers puts a data directory on a new volume of etcd-manager.
func onManagers(t *testing.T, dir string) (volume string) {
	t.Helper()
	volume = t.TempDir()
	check(t, os.Mkdir(filepath.Join(volume, managerData), 0o755))
	check(t, os.Rename(dir, filepath.Join(volume, managerData, "tok")))
	check(t, os.WriteFile(filepath.Join(volume, managerStateFile), managed("tok").wire().encode(), 0o600))
	return volume
}

// onPlain puts a data directory on a new volume in the layout of plain etcd.
func onPlain(t *testing.T, dir string) (volume string) {
	t.Helper()
	volume = t.TempDir()
	check(t, os.Rename(filepath.Join(dir, memberDir), filepath.Join(volume, memberDir)))
	return volume
}

func TestOrigin(t *testing.T) {
	smallLogs(t)
	elders := []plan.Elder{{ID: 7, Name: "m7", PeerURL: "http://m7:2380", Slot: "7"}, {ID: 9, Name: "m9", PeerURL: "http://m9:2380", Slot: "9"},
		{ID: 11, Name: "m11", PeerURL: "http://m11:2380", Slot: "11"}}
	want := plan.Origin{Program: plan.EtcdManager, Path: "data/tok", Token: "tok", Cluster: 8, Member: 7, Members: elders, Version: "3.6.0"}
	volume := onManagers(t, threeOf36().data(t))
	before := fingerprint(t, volume)
	got, err := ofThree.Origin(volume)
	if err != nil || !reflect.DeepEqual(got, &want) {
		t.Errorf("etcd-manager: got  %+v, %v\nwant %+v", got, err, want)
	}
	if fingerprint(t, volume) != before {
		t.Error("etcd-manager: the volume was changed")
	}
	want.Program, want.Path, want.Token = plan.PlainEtcd, ".", ""
	volume = onPlain(t, threeOf36().data(t))
	if got, err := ofThree.Origin(volume); err != nil || !reflect.DeepEqual(got, &want) {
		t.Errorf("plain etcd: got  %+v, %v\nwant %+v", got, err, want)
	}
	for name, make := range map[string]func(volume string) error{
		"a blank volume": func(string) error { return nil },
		"our own data":   func(v string) error { return os.CopyFS(filepath.Join(v, etcdDir), os.DirFS(threeOf36().data(t))) },
		"a file state":   func(v string) error { return os.WriteFile(filepath.Join(v, managerStateFile), nil, 0o600) },
		"other data":     func(v string) error { return os.MkdirAll(filepath.Join(v, managerData, "pictures"), 0o700) },
		"an etcd-manager that gave up": func(v string) error {
			return os.MkdirAll(filepath.Join(v, "data-trashcan", "tok", memberDir), 0o700)
		},
	} {
		volume := t.TempDir()
		check(t, make(volume))
		if o, err := ofThree.Origin(volume); o != nil || err != nil {
			t.Errorf("%s: got %+v, %v, want nothing", name, o, err)
		}
	}
}

// While an etcd uses the data, Left can still tell whose it is, before and after a take-up.
func TestLeft(t *testing.T) {
	smallLogs(t)
	for name, volume := range map[string]string{"etcd-manager": onManagers(t, threeOf36().data(t)), "plain etcd": onPlain(t, threeOf36().data(t))} {
		for _, taken := range []bool{false, true} {
			o, err := ofThree.Origin(volume)
			check(t, err)
			want := *o
			want.Members, want.Version = nil, ""
			if taken {
				check(t, ofThree.TakeUp(volume, *o))
			}
			dir, _, err := ForeignData(volume)
			check(t, err)
			db, err := bolt.Open(datadir.ToBackendFileName(dir), 0o600, nil) // like a running etcd
			check(t, err)
			if _, err := ofThree.Origin(volume); !errors.Is(err, errLocked) {
				t.Errorf("%s: it is not locked: %v", name, err)
			}
			if got, err := ofThree.Left(volume); err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("%s, taken up %t: got %+v, %v, want %+v", name, taken, got, err, want)
			}
			check(t, db.Close())
		}
	}
	if got, err := ofThree.Left(t.TempDir()); got != nil || err != nil {
		t.Errorf("a blank volume: got %+v, %v", got, err)
	}
}

// Each obstacle is reported with a cure, and nothing is changed.
func TestOriginObstacles(t *testing.T) {
	smallLogs(t)
	state := func(volume string, s *ManagerState) error {
		return os.WriteFile(filepath.Join(volume, managerStateFile), s.wire().encode(), 0o600)
	}
	more := func(m *membership.Member) lists {
		return lists{log: founded(add(m)), v3: append([]*membership.Member{m}, all...)}
	}
	another := func(v string) error {
		return os.CopyFS(filepath.Join(v, managerData, "other"), os.DirFS(filepath.Join(v, managerData, "tok")))
	}
	version := func(v string) func(volume string) error {
		return func(volume string) error {
			set(t, filepath.Join(volume, managerData, "tok"), schema.Cluster.Name(), schema.ClusterClusterVersionKeyName, v)
			return nil
		}
	}
	twoURLs, noSlot, longer, twice := at(13), at(13), at(13), at(13)
	twoURLs.PeerURLs = append(twoURLs.PeerURLs, "http://m14:2380")
	noSlot.PeerURLs = []string{"http://10.0.0.3:2380"}
	longer.PeerURLs = []string{"http://md.test:2380"}
	twice.PeerURLs = []string{"http://m9:2380"}
	for name, tc := range map[string]struct {
		lists lists
		spoil func(volume string) error
		want  string // "" for no obstacle
	}{
		"nothing":                     {threeOf36(), nil, ""},
		"several tokens, one in use":  {threeOf36(), another, ""},
		"no state":                    {threeOf36(), func(v string) error { return os.Remove(filepath.Join(v, managerStateFile)) }, "state is missing"},
		"several tokens and no state": {threeOf36(), func(v string) error { return errors.Join(another(v), os.Remove(filepath.Join(v, managerStateFile))) }, "state is missing"},
		"another token":               {threeOf36(), func(v string) error { return state(v, managed("gone")) }, "names the cluster gone, and "},
		"a token outside":             {threeOf36(), func(v string) error { return state(v, managed("../data/tok")) }, `names no cluster, but "../data/tok"`},
		"a state of no cluster":       {threeOf36(), func(v string) error { return state(v, &ManagerState{}) }, `names no cluster, but ""`},
		"garbage": {threeOf36(), func(v string) error {
			return os.WriteFile(filepath.Join(v, managerStateFile), []byte("\xff\xff"), 0o600)
		}, "is not a state file of etcd-manager"},
		"quarantined":         {threeOf36(), func(v string) error { s := managed("tok"); s.Quarantined = true; return state(v, s) }, "in quarantine, as in a restore"},
		"two programs":        {threeOf36(), func(v string) error { return os.Mkdir(filepath.Join(v, memberDir), 0o700) }, "holds the data of two programs"},
		"our data beside it":  {threeOf36(), func(v string) error { return os.MkdirAll(filepath.Join(v, etcdDir, memberDir), 0o700) }, "both may hold data"},
		"an empty directory":  {threeOf36(), func(v string) error { return os.Mkdir(filepath.Join(v, etcdDir), 0o700) }, ""},
		"a file in the place": {threeOf36(), func(v string) error { return os.WriteFile(filepath.Join(v, originFile), []byte("{"), 0o600) }, "remove the file"},
		"a later holdfast": {threeOf36(), func(v string) error {
			return os.WriteFile(filepath.Join(v, originFile), []byte(`{"version":2}`), 0o600)
		}, "use a newer one"},
		"etcd-manager since": {threeOf36(), func(v string) error {
			return originMark{Version: 1, Program: plan.EtcdManager, Path: "data/old", Token: "old"}.write(v)
		}, "names the cluster tok, and holdfast took up old"},
		"another program": {threeOf36(), func(v string) error {
			return originMark{Version: 1, Program: "consul", Path: "data/tok", Token: "tok"}.write(v)
		}, `no data of program "consul"`},
		"a log elsewhere": {threeOf36(), func(v string) error {
			wal := datadir.ToWALDir(filepath.Join(v, managerData, "tok"))
			return errors.Join(os.Rename(wal, filepath.Join(v, "wal")), os.Symlink(filepath.Join(v, "wal"), wal))
		}, "wal is not a directory: the data must be on this volume"},
		"no log": {threeOf36(), func(v string) error { return os.RemoveAll(datadir.ToWALDir(filepath.Join(v, managerData, "tok"))) }, "(--wal-dir)"},
		"data elsewhere": {threeOf36(), func(v string) error {
			dir, there := filepath.Join(v, managerData, "tok"), filepath.Join(t.TempDir(), "tok")
			return errors.Join(os.Rename(dir, there), os.Symlink(there, dir))
		}, "tok is not a directory: the data must be on this volume"},
		"no database": {threeOf36(), func(v string) error { return os.Remove(DatabasePath(filepath.Join(v, managerData, "tok"))) }, "`holdfast takeover check "},
		"no decision": {threeOf36(), version("3.0.0"), ""},
		"no decision at all": {threeOf36(), func(v string) error {
			edit(t, DatabasePath(filepath.Join(v, managerData, "tok")), func(tx *bolt.Tx) error {
				return tx.Bucket(schema.Cluster.Name()).Delete(schema.ClusterClusterVersionKeyName)
			})
			return nil
		}, ""},
		"etcd 3.5": {threeOf36(), version("3.5.0"), "the cluster's version is 3.5.0"},
		"etcd 3.4": {threeOf36(), func(v string) error {
			edit(t, DatabasePath(filepath.Join(v, managerData, "tok")), func(tx *bolt.Tx) error {
				return errors.Join(tx.Bucket(schema.Cluster.Name()).Delete(schema.ClusterClusterVersionKeyName), tx.Bucket(schema.Meta.Name()).Delete(schema.MetaTermKeyName))
			})
			return nil
		}, "etcd 3.4 or older"},
		"a newer etcd":       {threeOf36(), version("3.99.0"), errNewer.Error()},
		"a phantom":          {lists{log: founded(), v3: append([]*membership.Member{at(13)}, all...), raft: allVote}, nil, "member d (m13): the database says voter, raft absent"},
		"itself removed":     {lists{log: founded(remove(7)), v3: all[1:], v3Removed: []uint64{7}}, nil, "member 7, whose data it is, is not in its own list"},
		"a URL without slot": {more(noSlot), nil, "the peer URL http://10.0.0.3:2380 of member d (m13) does not fit etcd.peer-url, http://m{slot}:2380"},
		"a longer host name": {more(longer), nil, "the peer URL http://md.test:2380 of member d (m13) does not fit etcd.peer-url, http://m{slot}:2380"},
		"two URLs":           {more(twoURLs), nil, "has 2 peer URLs"},
		"a slot twice":       {lists{log: founded(), v3: append([]*membership.Member{twice}, all...), raft: allVote}, nil, "has the slot of member"},
	} {
		volume := onManagers(t, tc.lists.data(t))
		if tc.spoil != nil {
			check(t, tc.spoil(volume))
		}
		before := fingerprint(t, volume)
		o, err := ofThree.Origin(volume)
		if err != nil || o == nil || (o.Obstacle == "") != (tc.want == "") || !strings.Contains(o.Obstacle, tc.want) {
			t.Errorf("%s: got %+v, %v, want %q", name, o, err, tc.want)
			continue
		}
		if name == "a newer etcd" && (o.Cluster == 0 || o.Member != 7 || !strings.Contains(o.Obstacle, "use a holdfast that embeds etcd 3.99")) {
			t.Errorf("%s: got %+v", name, o)
		}
		if err := ofThree.TakeUp(volume, *o); o.Obstacle != "" && err == nil {
			t.Errorf("%s: was taken up", name)
		}
		if o.Obstacle != "" && fingerprint(t, volume) != before {
			t.Errorf("%s: the volume was changed", name)
		}
	}
}

// Old entries are an obstacle only for an etcd that cannot replay them.
func TestOriginOldEntries(t *testing.T) {
	smallLogs(t)
	dir := old35{applied: 3, term: 2, members: map[uint64]bool{7: false}, commit: 4}.write(t)
	o, err := ofThree.Origin(onManagers(t, dir))
	check(t, err)
	if strings.Contains(o.Obstacle, "repair-wal") == replaysV2 {
		t.Errorf("got %q", o.Obstacle)
	}
}

// Either lock of an etcd makes Origin fail, even if the other one is free.
func TestOriginLocked(t *testing.T) {
	smallLogs(t)
	for name, lock := range map[string]func(t *testing.T, dir string){
		"the database is locked": func(t *testing.T, dir string) {
			db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
			check(t, err)
			t.Cleanup(func() { db.Close() })
		},
		"the log is locked": func(t *testing.T, dir string) {
			check(t, os.RemoveAll(datadir.ToWALDir(dir)))
			makeWAL(t, dir)
		},
	} {
		volume := onManagers(t, threeOf36().data(t))
		lock(t, filepath.Join(volume, managerData, "tok"))
		if o, err := ofThree.Origin(volume); o != nil || !errors.Is(err, errLocked) {
			t.Errorf("%s: got %+v, %v, want errLocked", name, o, err)
		}
	}
}
