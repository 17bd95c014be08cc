package faults

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
)

// History is the record of a run: the requests and answers of each client, and the members' logs.
type History struct {
	Unique    bool // every write has a revision of its own
	Reports   []report.ClientReport
	Persisted []model.EtcdRequest // in the order of the raft log
}

// own begins the keys that holdfast itself writes.
const own = "holdfast.internal/"

// undecided limits how long the checker may search.
const undecided = time.Minute

// ErrUndecided means that the checker found no answer in time. A request without an answer may have been carried out at
// any later time, or never. Many such requests make the search too large.
var ErrUndecided = errors.New("the checker could not tell in time whether the history was possible")

// save writes the clients' histories and copies the members' write-ahead logs, by slot, into a new directory.
func save(lg *zap.Logger, dir string, unique bool, reports []report.ClientReport, members map[string]string) error {
	r, err := report.NewTestReport(lg, dir, nil, &report.TrafficDetail{ExpectUniqueRevision: unique})
	if err != nil {
		return err
	}
	r.SetClientReports(reports)
	if err := r.SaveEtcdData(); err != nil {
		return fmt.Errorf("save the clients' histories: %w", err)
	}
	var copies []string
	for slot, member := range members {
		to := filepath.Join(dir, "server-"+slot, "member", "wal")
		if err := os.CopyFS(to, os.DirFS(filepath.Join(member, "member", "wal"))); err != nil {
			return fmt.Errorf("save the log of slot %s: %w", slot, err)
		}
		copies = append(copies, filepath.Dir(filepath.Dir(to)))
	}
	if err := emptyAlarms(lg, copies); err != nil {
		return fmt.Errorf("empty the alarms in the members' logs: %w", err)
	}
	return nil
}

// Load reads a history from the directory of a run's artefacts. It returns an error if no member's log goes back to the
// founding, because then not everything could be checked.
func Load(lg *zap.Logger, dir string) (h History, err error) {
	if h.Reports, err = report.LoadClientReports(dir); err != nil {
		return h, fmt.Errorf("load the clients' histories: %w", err)
	}
	detail, err := report.LoadTrafficDetail(dir)
	if err != nil {
		return h, fmt.Errorf("load the kind of traffic: %w", err)
	}
	h.Unique = detail.ExpectUniqueRevision
	members, err := filepath.Glob(filepath.Join(dir, "server-*"))
	if err != nil {
		return h, err
	}
	whole := slices.ContainsFunc(members, func(m string) bool {
		_, err := os.Stat(filepath.Join(m, "member", "wal", "0000000000000000-0000000000000000.wal"))
		if err != nil {
			return false
		}
		_, entries, err := report.ReadWAL(lg, m)
		return err == nil && len(entries) > 0 && entries[0].GetIndex() == 1
	})
	if !whole {
		return h, fmt.Errorf("none of %d members in %s has a log from the first entry on", len(members), dir)
	}
	if h.Persisted, err = report.PersistedRequests(lg, members); err != nil {
		return h, fmt.Errorf("read the members' logs: %w", err)
	}
	return h, nil
}

// Check returns an error if the history is impossible. It checks the linearizability of all requests, the guarantees of
// watches, and reads at old revisions.
func (h History) Check(lg *zap.Logger) error {
	requests := 0
	for _, r := range h.Reports {
		requests += len(r.KeyValue)
	}
	if requests == 0 || len(h.Persisted) == 0 {
		return errors.New("an empty history: nothing is proven")
	}
	reports := slices.Concat(h.Reports, h.unrecorded())
	result := validate.ValidateAndReturnVisualize(lg, validate.Config{ExpectRevisionUnique: h.Unique}, reports,
		h.Persisted, undecided)
	if s := result.Linearization.Status; s == validate.Timeout || s == validate.DeadlineExceeded {
		return ErrUndecided
	}
	return result.Error()
}

// unrecorded returns holdfast's own writes as requests of clients that got no answer. The model knows only recorded
// clients: an unknown write would change the revision, and the model would refuse everything after it. Package validate
// turns a request without an answer that is in the log into a successful one, at the revision that watches saw.
func (h History) unrecorded() []report.ClientReport {
	id := h.lastID()
	var all []report.ClientReport
	for _, request := range h.Persisted {
		if !internal(request) || idle(request) {
			continue
		}
		id++
		all = append(all, report.ClientReport{ClientID: id, KeyValue: []porcupine.Operation{{
			ClientId: id, Input: request, Call: 1, Return: math.MaxInt64,
			Output: model.MaybeEtcdResponse{Error: "of holdfast, and not recorded"},
		}}})
	}
	return all
}

// lastID returns the highest ID of a client. A client whose request has failed continues with another ID.
func (h History) lastID() int {
	id := 0
	for _, r := range h.Reports {
		id = max(id, r.ClientID)
		for _, op := range r.KeyValue {
			id = max(id, op.ClientId)
		}
	}
	return id
}

// idle reports whether a request is one that an idle leader commits, which never changes anything.
func idle(r model.EtcdRequest) bool {
	return slices.ContainsFunc(r.Txn.Conditions, func(c model.EtcdCondition) bool { return c.Key == own+"idle" })
}

// internal reports whether a request writes only keys of holdfast.
func internal(r model.EtcdRequest) bool {
	if r.Txn == nil {
		return false
	}
	written := map[bool]int{}
	for _, op := range r.Txn.AllOperations() {
		if op.Type != model.RangeOperation {
			written[strings.HasPrefix(op.Put.Key+op.Delete.Key, own)]++
		}
	}
	return slices.Equal(slices.Collect(maps.Keys(written)), []bool{true})
}
