package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.uber.org/zap"
)

// tampering puts something that must never happen into a history in which it has not.
type tampering struct {
	name   string
	tamper func(h *History) bool // false: there is nothing here to tamper with
	want   string                // in the checker's refusal
}

var tamperings = []tampering{
	{"a read goes back in time", readGoesBack, "linearization: "},
	{"an acknowledged write is lost", writeIsLost, "linearization: "},
	{"a watch misses an event", eventIsMissing, "watch: "},
	{"a watch sees an event twice", eventTwice, "watch: "},
	{"a write is in no member's log", logIsShort, "watch: "},
	{"a read at an old revision sees something else", oldReadDiffers, "serializable: "},
}

// The checker refuses what must not happen; without that its consent would prove nothing. It accepts what holdfast
// itself writes, which no client has recorded.
func TestCheckerRefuses(t *testing.T) {
	real(t)
	lg := logger(t, filepath.Join(t.TempDir(), "checker.log"))
	r := Found(t, binary, lg, volumeSize)
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { r.write(ctx, t) })
	// Few requests fail: the checker tries all orders of events to prove that none fits, and each failed request doubles
	// them.
	r.Play(Schedule{Traffic: "etcd", Faults: []Fault{{Kind: HandOver, Wait: 3 * time.Second}}}, func() {
		r.cluster.Until(time.Minute, "there is a history to tamper with", func() error {
			s, err := r.cluster.Nodes[0].Self()
			if err == nil && (s.Etcd == nil || s.Etcd.Revision < 300) {
				err = fmt.Errorf("the member is %+v", s.Etcd)
			}
			return err
		})
		cancel()
		writing.Wait()
	})
	load := func() History {
		h, err := Load(lg, filepath.Join(r.Dir, "record"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	untouched := load()
	if err := untouched.Check(lg); err != nil {
		t.Fatalf("the history as it was recorded: %v", err)
	}
	if len(untouched.unrecorded()) == 0 {
		t.Error("nothing that nobody recorded is in the log")
	}
	for _, c := range tamperings {
		t.Run(c.name, func(t *testing.T) {
			h := load()
			if !c.tamper(&h) {
				t.Fatal("the history has nothing of the kind")
			}
			if err := h.Check(lg); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want a refusal that begins with %q", err, c.want)
			}
		})
	}
	t.Run("somebody else writes", func(t *testing.T) {
		h := load()
		h.Persisted = slices.DeleteFunc(h.Persisted, internal) // so that they belong to nobody
		if err := h.Check(lg); err == nil {
			t.Error("a history with writes of nobody was accepted")
		}
	})
}

// write writes keys of holdfast until ctx ends, and records nothing.
func (r *Run) write(ctx context.Context, t *testing.T) {
	client, err := r.client()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// The check for an empty database comes first.
		if s, err := client.Status(ctx, r.cluster.Nodes[0].ClientURL()); err != nil || s.Header.Revision < 20 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = client.Put(call, own+"lock", fmt.Sprint(i)) // it may fail under faults; the log tells whether it did
		cancel()
	}
}

// each calls f with every request and its answer, the newest first, until f returns true.
func (h *History) each(f func(op *porcupine.Operation, in model.EtcdRequest, out model.MaybeEtcdResponse) bool) bool {
	var all []*porcupine.Operation
	for i := range h.Reports {
		for k := range h.Reports[i].KeyValue {
			all = append(all, &h.Reports[i].KeyValue[k])
		}
	}
	slices.SortFunc(all, func(a, b *porcupine.Operation) int { return int(b.Call - a.Call) })
	for _, op := range all {
		if f(op, op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)) {
			return true
		}
	}
	return false
}

func readGoesBack(h *History) bool {
	return h.each(func(op *porcupine.Operation, in model.EtcdRequest, out model.MaybeEtcdResponse) bool {
		if in.Type != model.Range || in.Range.Revision != 0 || out.Error != "" || out.Revision < 100 {
			return false
		}
		out.Revision -= 50
		op.Output = out
		return true
	})
}

// writeIsLost adds a read after the last write that does not see the write.
func writeIsLost(h *History) bool {
	return h.each(func(op *porcupine.Operation, in model.EtcdRequest, out model.MaybeEtcdResponse) bool {
		if in.Type != model.Txn || len(in.Txn.OperationsOnSuccess) != 1 || in.Txn.OperationsOnSuccess[0].Put.Key != "tombstone" || out.Error != "" {
			return false
		}
		read, id := *op, h.lastID()+1
		read.ClientId, read.Call, read.Return = id, op.Return+1, op.Return+2
		read.Input = model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{RangeOptions: model.RangeOptions{Start: "tombstone"}}}
		read.Output = model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Revision: out.Revision, Range: &model.RangeResponse{KVs: []model.KeyValue{}}}}
		last := h.Reports[len(h.Reports)-1]
		last.ClientID, last.KeyValue, last.Watch = id, []porcupine.Operation{read}, nil
		h.Reports = append(h.Reports, last)
		return true
	})
}

// response finds an answer to a watch with events before and after it, and changes the answers.
func (h *History) response(change func(all []model.WatchResponse, i int) []model.WatchResponse) bool {
	for _, r := range h.Reports {
		for k := range r.Watch {
			all := r.Watch[k].Responses
			for i := 1; i < len(all)-1; i++ {
				if len(all[i-1].Events) > 0 && len(all[i].Events) > 0 && len(all[i+1].Events) > 0 {
					r.Watch[k].Responses = change(all, i)
					return true
				}
			}
		}
	}
	return false
}

func eventIsMissing(h *History) bool {
	return h.response(func(all []model.WatchResponse, i int) []model.WatchResponse { return slices.Delete(all, i, i+1) })
}

func eventTwice(h *History) bool {
	return h.response(func(all []model.WatchResponse, i int) []model.WatchResponse { return slices.Insert(all, i, all[i]) })
}

func logIsShort(h *History) bool {
	i := slices.IndexFunc(h.Persisted, func(r model.EtcdRequest) bool {
		return r.Txn != nil && len(r.Txn.Conditions) == 0 && len(r.Txn.OperationsOnSuccess) == 1 && strings.HasPrefix(r.Txn.OperationsOnSuccess[0].Put.Key, "key")
	})
	if i < 0 {
		return false
	}
	h.Persisted = slices.Delete(h.Persisted, i, i+1)
	return true
}

func oldReadDiffers(h *History) bool {
	return h.each(func(op *porcupine.Operation, in model.EtcdRequest, out model.MaybeEtcdResponse) bool {
		// A read at a revision that was the newest is checked like any other.
		old := in.Range != nil && out.Revision > in.Range.Revision
		if in.Type != model.Range || in.Range.Revision == 0 || !old || out.Error != "" || out.Range == nil || len(out.Range.KVs) == 0 || in.Range.KeysOnly {
			return false
		}
		kvs := slices.Clone(out.Range.KVs)
		kvs[0].Value = model.ToValueOrHash("of another revision")
		out.Range = &model.RangeResponse{KVs: kvs, Count: out.Range.Count}
		op.Output = out
		return true
	})
}

// An empty history proves nothing. A history whose logs begin late is refused.
func TestNothingIsProven(t *testing.T) {
	if err := (History{}).Check(zap.NewNop()); err == nil {
		t.Error("an empty history was accepted")
	}
	if _, err := Load(zap.NewNop(), t.TempDir()); err == nil {
		t.Error("a directory without a history was accepted")
	}
}
