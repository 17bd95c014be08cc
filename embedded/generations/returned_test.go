package generations

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// adoptedOf is the record of a cluster of etcd-manager with an ID.
func adoptedOf(id uint64) plan.Record {
	const pattern = "https://etcd-{slot}.internal.test:2380"
	return plan.AdoptedRecord("main", pattern, plan.Origin{Program: plan.EtcdManager, Token: "t", Cluster: id, Member: id + 1,
		Members: []plan.Elder{{ID: id + 1, Name: "etcd-a", PeerURL: strings.Replace(pattern, "{slot}", "a", 1), Slot: "a"}}})
}

// A cluster that was given back is replaced by what the other program has made of it, and by nothing before that.
func TestReturned(t *testing.T) {
	dir, r, founding := shelf(t)
	a, b := adoptedOf(7), adoptedOf(9)
	if err := r.MoveAside(t.Context(), known(t, r).Record); err != nil {
		t.Fatal(err)
	}
	is := func(want plan.Record, returned bool) {
		t.Helper()
		if got := known(t, r); got.Record == nil || got.Record.ID != want.ID || got.Returned != returned {
			t.Fatalf("got %+v, returned %t; want %s, %t", got.Record, got.Returned, want.Token(), returned)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.Keep(t.Context(), a)) // there is nothing to undo
	must(r.Put(t.Context(), a))
	is(a, false)
	must(r.Return(t.Context(), b, "root")) // another cluster's mark
	is(a, false)
	must(r.Return(t.Context(), a, "root"))
	must(r.Return(t.Context(), a, "another"))
	is(a, true)
	must(r.Keep(t.Context(), a))
	is(a, false)
	must(r.Keep(t.Context(), b))
	must(r.Return(t.Context(), a, "root"))
	must(r.Replace(t.Context(), a, b))
	is(b, false)
	must(r.Replace(t.Context(), a, b)) // by another node of that cluster
	is(b, false)
	if err := r.Replace(t.Context(), a, adoptedOf(11)); !errors.Is(err, plan.ErrConflict) {
		t.Errorf("replace what is not there any more: got %v", err)
	}
	is(b, false)
	if kept, _ := filepath.Glob(filepath.Join(dir, "holdfast/main/aside-*"+a.ID+".json")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
	if err := r.Replace(t.Context(), b, a); err != nil { // both were given back, and the first one came back
		t.Fatal(err)
	}
	is(a, true)
	next := outcomeOf(proposal(a, 0), a) // it was restored, and then given back as well
	next.Charter.Seats = founding.Charter.Seats
	must(r.Put(t.Context(), next))
	is(next, false)
	must(r.Return(t.Context(), next, "root"))
	is(next, true)
}

// Anyone who can write the store but not sign cannot say that a cluster was given back, nor can a damaged mark.
func TestReturnedUnsigned(t *testing.T) {
	_, r, founding := shelf(t)
	thief := New(r.Store, r.Cluster, nil)
	a := adoptedOf(7)
	r.Signer = signer(t)
	err := errors.Join(thief.MoveAside(t.Context(), &founding), r.Put(t.Context(), a), thief.Return(t.Context(), a, "thief"))
	if err != nil {
		t.Fatal(err)
	}
	if got := known(t, r); got.Returned {
		t.Errorf("unsigned: got %+v", got)
	}
	if err := errors.Join(r.Keep(t.Context(), a), r.Return(t.Context(), a, "root")); err != nil {
		t.Fatal(err)
	}
	if got := known(t, r); !got.Returned {
		t.Errorf("signed: got %+v", got)
	}
	err = errors.Join(r.Keep(t.Context(), a), r.Store.PutIfAbsent(t.Context(), r.returnedName(a.ID), []byte("{")))
	if err != nil {
		t.Fatal(err)
	}
	if got := known(t, r); got.Returned || got.Record == nil {
		t.Errorf("damaged: got %+v", got)
	}
}
