package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"holdfast/snapshot"
)

const (
	created = "control/etcd-cluster-created"
	spec    = "control/etcd-cluster-spec"
)

// Missing objects are written, and existing ones are kept, no matter who wrote them.
func TestKeepControl(t *testing.T) {
	ctx := t.Context()
	wanted := snapshot.ManagerSpec{Members: 3, EtcdVersion: "3.6.12"}
	for name, tc := range map[string]struct {
		before map[string]string
		want   snapshot.Control
	}{
		"nothing":       {nil, snapshot.Control{Created: true, Spec: &wanted}},
		"an empty mark": {map[string]string{created: ""}, snapshot.Control{Created: true, Spec: &wanted}},
		"kops' spec": {map[string]string{spec: `{"memberCount": 5, "etcdVersion": "3.5.9"}`},
			snapshot.Control{Created: true, Spec: &snapshot.ManagerSpec{Members: 5, EtcdVersion: "3.5.9"}}},
		"protobuf's names, and a command": {map[string]string{spec: `{"member_count": 1, "etcd_version": "3.6.1"}`,
			created: `{"timestamp":1638935701000000000}`, "control/2026-07-01T01:02:03Z-000000/_command.json": "{}"},
			snapshot.Control{Created: true, Spec: &snapshot.ManagerSpec{Members: 1, EtcdVersion: "3.6.1"},
				Commands: []string{"2026-07-01T01:02:03Z-000000"}}},
	} {
		store := snapshot.NewDir(t.TempDir())
		for object, text := range tc.before {
			if err := store.Put(ctx, object, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := snapshot.KeepControl(ctx, store, wanted); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := snapshot.ReadControl(ctx, store)
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, tc.want)
			}
		}
		for object, text := range tc.before {
			if text == "" {
				continue
			}
			r, err := store.Get(ctx, object)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if r.Close(); err != nil || !bytes.Equal(got, []byte(text)) {
				t.Errorf("%s: %s was changed to %s, %v", name, object, got, err)
			}
		}
	}
}

// The mark is written again beside a spec, because with the spec alone etcd-manager founds a cluster. Nothing is
// written if there is no spec or the mark exists.
func TestKeepMark(t *testing.T) {
	ctx := t.Context()
	const kops, mark = `{"memberCount": 3, "etcdVersion": "3.6.12"}`, `{"timestamp":1638935701000000000}`
	for name, tc := range map[string]struct {
		before        map[string]string
		missing, want bool // it was missing, and it exists afterwards
	}{
		"nothing":                {nil, false, false},
		"a spec alone":           {map[string]string{spec: kops}, true, true},
		"a spec, an empty mark":  {map[string]string{spec: kops, created: ""}, true, true},
		"both":                   {map[string]string{spec: kops, created: mark}, false, true},
		"a mark alone":           {map[string]string{created: mark}, false, true},
		"an empty mark, no spec": {map[string]string{created: ""}, false, false},
	} {
		store := snapshot.NewDir(t.TempDir())
		for object, text := range tc.before {
			if err := store.Put(ctx, object, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		for _, missing := range []bool{tc.missing, false} {
			if got, err := snapshot.KeepMark(ctx, store); got != missing || err != nil {
				t.Errorf("%s: it was missing: %t, %v, want %t", name, got, err, missing)
			}
			if got, err := snapshot.ReadControl(ctx, store); got.Created != tc.want || err != nil {
				t.Errorf("%s: got %+v, %v, want the mark: %t", name, got, err, tc.want)
			}
		}
	}
	if missing, err := snapshot.KeepMark(ctx, &unmarked{Store: unmarkedWith(t, kops)}); err == nil {
		t.Errorf("it was not noticed that the mark could not be written: %t", missing)
	}
}

// unmarkedWith is a store that only has a spec.
func unmarkedWith(t *testing.T, text string) snapshot.Store {
	t.Helper()
	store := snapshot.NewDir(t.TempDir())
	if err := store.Put(t.Context(), spec, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return store
}

// A spec without the mark makes etcd-manager found an empty cluster, so there must never be one.
func TestKeepControlMarksFirst(t *testing.T) {
	store := &unmarked{Store: snapshot.NewDir(t.TempDir())}
	if err := snapshot.KeepControl(t.Context(), store, snapshot.ManagerSpec{Members: 3, EtcdVersion: "3.6.12"}); err == nil {
		t.Fatal("it was not noticed that the mark could not be written")
	}
	if got, err := snapshot.ReadControl(t.Context(), store); err != nil || got.Spec != nil {
		t.Errorf("got %+v, %v, want no spec", got, err)
	}
}

// unmarked refuses the mark.
type unmarked struct{ snapshot.Store }

func (u *unmarked) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if name == created {
		return errors.New("no")
	}
	return u.Store.PutIfAbsent(ctx, name, data)
}
