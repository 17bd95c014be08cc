package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.uber.org/zap"
)

// Registers are clients of a few keys, which continue while one generation of the cluster ends and the next one
// begins. An answer belongs to the generation whose cluster ID it has. These keys have a model of their own, because
// the model of etcd's checker begins with an empty database, and a restored one is not empty.
type Registers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu  sync.Mutex
	ops []operation
}

// operation is a request: a put of a unique value, or a read.
type operation struct {
	client       int
	key          string
	put          bool
	value        string // the value that was put or read
	call, answer time.Duration
	cluster      uint64 // the cluster ID in the answer; 0 without an answer
}

const (
	registers     = 5 // keys
	registerOf    = 6 // clients
	registerPause = 60 * time.Millisecond
	registerTime  = 2 * time.Second // the limit of a request
)

func register(i int) string { return "register/" + strconv.Itoa(i) }

// registers starts the clients.
func (r *Run) registers() *Registers {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &Registers{cancel: cancel}
	r.t.Cleanup(g.stop)
	began := time.Now()
	for i := range registerOf {
		client, err := r.client()
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { client.Close() })
		if i < nodes {
			client.SetEndpoints(r.cluster.Nodes[i].ClientURL())
		}
		g.wg.Go(func() { g.client(ctx, client, i, began) })
	}
	return g
}

func (g *Registers) stop() {
	g.cancel()
	g.wg.Wait()
}

func (g *Registers) client(ctx context.Context, client *clientv3.Client, id int, began time.Time) {
	pace := time.NewTicker(registerPause)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		op := operation{client: id, key: register((id + n) % registers), put: n%2 == 0}
		call, cancel := context.WithTimeout(ctx, registerTime)
		op.call = time.Since(began)
		if op.put {
			op.value = fmt.Sprintf("%d-%d", id, n)
			if resp, err := client.Put(call, op.key, op.value); err == nil {
				op.cluster = resp.Header.ClusterId
			}
		} else if resp, err := client.Get(call, op.key); err == nil {
			op.cluster = resp.Header.ClusterId
			if len(resp.Kvs) == 1 {
				op.value = string(resp.Kvs[0].Value)
			}
		}
		op.answer = time.Since(began)
		cancel()
		g.mu.Lock()
		g.ops = append(g.ops, op)
		g.mu.Unlock()
	}
}

// clusters returns the cluster IDs in the answers, in the order of the first answer of each.
func clusters(ops []operation) (ids []uint64) {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b operation) int { return int(a.answer - b.answer) })
	for _, op := range ops {
		if op.cluster != 0 && !slices.Contains(ids, op.cluster) {
			ids = append(ids, op.cluster)
		}
	}
	return ids
}

// acknowledged counts the puts that a generation has acknowledged.
func (g *Registers) acknowledged(cluster uint64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, op := range g.ops {
		if op.put && op.cluster == cluster {
			n++
		}
	}
	return n
}

// linearizable returns an error if the answers of a generation are impossible. first has the values that each key may
// have had at its beginning: one after a restore, and several if it is not known how much a survivor knew.
func linearizable(ops []operation, cluster uint64, first map[string][]string) error {
	seen := map[string]bool{}
	answered := 0
	for _, op := range ops {
		if op.cluster == cluster {
			answered++
			if !op.put {
				seen[op.value] = true
			}
		}
	}
	if answered == 0 {
		return fmt.Errorf("generation %x has answered nothing: nothing is proven", cluster)
	}
	history := map[string][]porcupine.Operation{}
	id := registerOf
	for _, op := range ops {
		o := porcupine.Operation{ClientId: op.client, Input: op, Call: int64(op.call), Return: int64(op.answer)}
		switch {
		case op.cluster == cluster:
		case op.cluster != 0 || !op.put || !seen[op.value]:
			continue // it belongs to another generation, or no read shows whether it was carried out
		default:
			id++
			o.ClientId, o.Return = id, math.MaxInt64
		}
		history[op.key] = append(history[op.key], o)
	}
	for _, key := range slices.Sorted(maps.Keys(history)) {
		model := porcupine.NondeterministicModel{
			Init: func() (states []any) {
				for _, v := range first[key] {
					states = append(states, v)
				}
				return states
			},
			Step: func(state, input, _ any) []any {
				switch op := input.(operation); {
				case op.put:
					return []any{op.value}
				case state == op.value:
					return []any{state}
				}
				return nil
			},
			Equal: func(a, b any) bool { return a == b },
		}
		switch porcupine.CheckOperationsTimeout(model.ToModel(), history[key], undecided) {
		case porcupine.Illegal:
			return fmt.Errorf("generation %x: what was put into %s and read from it is impossible; it began with one of %q",
				cluster, key, first[key])
		case porcupine.Unknown:
			return ErrUndecided
		}
	}
	return nil
}

// missing returns the puts that a generation has acknowledged, but that are in none of its members' logs. members are
// the members' data directories after the generation's end.
func missing(lg *zap.Logger, ops []operation, cluster uint64, members []string) ([]operation, error) {
	written := map[string]bool{}
	persisted, err := report.PersistedRequests(lg, members)
	if err != nil {
		return nil, fmt.Errorf("read the logs of %v: %w", members, err)
	}
	for _, request := range persisted {
		if request.Txn == nil {
			continue
		}
		for _, op := range request.Txn.AllOperations() {
			written[op.Put.Value.Value] = true
		}
	}
	var lost []operation
	for _, op := range ops {
		if op.put && op.cluster == cluster && !written[op.value] {
			lost = append(lost, op)
		}
	}
	return lost, nil
}

// content returns the values of the keys at a revision, or the newest values for 0.
func (r *Run) content(rev int64) map[string][]string {
	r.t.Helper()
	client, err := r.client()
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	found := map[string][]string{}
	for i := range registers {
		found[register(i)] = []string{""}
	}
	r.cluster.Until(30*time.Second, fmt.Sprintf("revision %d can be read", rev), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), registerTime)
		defer cancel()
		resp, err := client.Get(ctx, "register/", clientv3.WithPrefix(), clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			found[string(kv.Key)] = []string{string(kv.Value)}
		}
		return nil
	})
	return found
}

// asides returns the data directories that were set aside, on all disks.
func (r *Run) asides() (dirs []string) {
	for _, n := range r.cluster.Nodes {
		found, _ := filepath.Glob(n.Machine.Host.Path(filepath.Join(n.Root, "*", "aside", "*")))
		for _, dir := range found {
			if !strings.HasPrefix(filepath.Base(dir), ".") {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}
