package faults

import (
	"reflect"
	"testing"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/model"
)

// A seed decides everything, and no seed loses the disks of two members.
func TestDraw(t *testing.T) {
	seen := map[Kind]bool{}
	different := false
	for seed := range uint64(200) {
		s := Draw(seed, time.Minute, Kinds)
		if again := Draw(seed, time.Minute, Kinds); !reflect.DeepEqual(s, again) {
			t.Fatalf("seed %d: got %v, then %v", seed, s, again)
		}
		different = different || !reflect.DeepEqual(s.Faults, Draw(seed+1, time.Minute, Kinds).Faults)
		lost := 0
		for _, f := range s.Faults {
			seen[f.Kind] = true
			if f.Kind == Lose {
				lost++
			}
			if f.Node < 0 || f.Node >= nodes || (f.Step != "") != (f.Kind == Step) || (f.Amount > 0) != (f.Kind == Loss) {
				t.Errorf("seed %d: %+v", seed, f)
			}
		}
		if lost > 1 {
			t.Errorf("seed %d loses %d disks", seed, lost)
		}
	}
	for _, k := range Kinds {
		if !seen[k] {
			t.Errorf("no seed draws %s", k)
		}
	}
	if !different {
		t.Error("all seeds draw the same")
	}
}

// The daily seeds draw every kind of fault and both kinds of traffic.
func TestSeeds(t *testing.T) {
	seen := map[string]bool{}
	for _, seed := range seeds {
		s := Draw(seed, 20*time.Second, Kinds)
		seen[s.Traffic+" traffic"] = true
		for _, f := range s.Faults {
			seen[string(f.Kind)] = true
		}
	}
	want := []string{"etcd traffic", "kubernetes traffic"}
	for _, k := range Kinds {
		want = append(want, string(k))
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("none of the seeds %v draws %s", seeds, w)
		}
	}
}

// Only a request that writes nothing but holdfast's keys is holdfast's.
func TestInternal(t *testing.T) {
	put := func(key string) model.EtcdOperation {
		return model.EtcdOperation{Type: model.PutOperation, Put: model.PutOptions{Key: key}}
	}
	remove := func(key string) model.EtcdOperation {
		return model.EtcdOperation{Type: model.DeleteOperation, Delete: model.DeleteOptions{Key: key}}
	}
	read := model.EtcdOperation{Type: model.RangeOperation, Range: model.RangeOptions{Start: own}}
	for _, c := range []struct {
		ops  []model.EtcdOperation
		want bool
	}{
		{[]model.EtcdOperation{put(own + "lock")}, true},
		{[]model.EtcdOperation{remove(own + "lock"), read}, true},
		{[]model.EtcdOperation{put("key1")}, false},
		{[]model.EtcdOperation{put(own + "lock"), put("key1")}, false},
		{[]model.EtcdOperation{read}, false},
		{nil, false},
	} {
		if got := internal(model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: c.ops}}); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.ops, got, c.want)
		}
	}
	if internal(model.EtcdRequest{Type: model.LeaseGrant, LeaseGrant: &model.LeaseGrantRequest{LeaseID: 1}}) {
		t.Error("a lease is nobody's")
	}
}
