package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"holdfast/embedded/plan"
)

// NewRecovery makes the proposal to continue from parent with the data of the request's survivor. last is the
// survivor's last known revision. The revision is raised as in a restore: a lost member may have acknowledged writes
// that no survivor has, and clients that have seen those must start over.
func NewRecovery(parent plan.Record, attempts int, q plan.Request, last, bump int64) plan.Restore {
	r := proposal(parent, attempts)
	r.Survivor, r.Disk, r.Log, r.Lost, r.By = q.Survivor, q.Disk, q.Log, q.Lost, q.By
	r.Revision, r.Bump = max(last, parent.Floor()), bump
	return r
}

// newContinuation makes the proposal to continue after parent with the data of a disk that the cluster had left behind,
// which is of the generation with the ID origin (R19). own is the revision of that data, and last that of the parent as
// far as known: the revision is raised beyond both.
func newContinuation(parent plan.Record, attempts int, q plan.Request, origin string,
	own, last, bump int64) plan.Restore {
	r := NewRecovery(parent, attempts, q, own, bump)
	r.Origin, r.Revision = origin, own
	r.Bump = max(bump, max(last, parent.Floor())-own+bump)
	return r
}

// buildFromDisk builds the survivor's new member from a copy of its database and its whole log. It notes in r where
// that log ended. The original is only read, and etcd may run on it.
func (rs *restorer) buildFromDisk(ctx context.Context, o plan.Observation, r *plan.Restore, path, dir string,
	charter *plan.Charter) error {
	rs.world.Step("before-copy")
	end, err := whereRoom(ctx, rs, path, func(ctx context.Context, progress func(Progress)) (plan.LogEnd, error) {
		return rs.world.Etcd.Recover(ctx, filepath.Join(path, EtcdDir), dir, progress)
	})
	if err != nil {
		return fmt.Errorf("bring a copy of the data to the end of its log: %w", err)
	}
	r.Log = &end
	rs.world.Step("after-copy")
	rs.status.progress(Progress{Phase: "building"})
	peers := map[string]string{o.Claim.Slot: plan.PeerURL(charter.PeerURL, o.Claim.Slot)}
	return rs.rebuild(ctx, o, r, dir, peers)
}

// Surveyed is what a cluster could be recovered from, and what a recovery would do.
type Surveyed struct {
	Record *plan.Record `json:"record"` // the generation that would end
	plan.Survey
	Chosen  plan.Survivor `json:"survivor"`
	Missing []string      `json:"missing,omitempty"` // still to be declared lost
	Refusal string        `json:"refusal,omitempty"` // why it cannot be done so
	Declare []string      `json:"declare,omitempty"` // all slots to declare lost, if that makes it possible
	Able    bool          `json:"able"`              // possible once these are declared lost
}

// Survey answers from what a node knows. lost is a comma-separated list of slots.
func Survey(o plan.Observation, lost, survivor string) Surveyed {
	r := Surveyed{Survey: o.Survey()}
	declared := strings.FieldsFunc(lost, func(c rune) bool { return c == ',' })
	r.Chosen, r.Refusal = r.Choose(declared, survivor)
	r.Missing = r.Survey.Missing(declared)
	if all, incurable := r.Survey.Declare(declared, survivor); incurable != "" {
		r.Refusal = incurable
	} else {
		r.Declare, r.Able = all, true
	}
	for _, p := range append(o.Peers, plan.Peer{Facts: &plan.Facts{Record: o.Disk.Ledger.Record}}) {
		if f := p.Facts; f != nil && f.Record != nil && (r.Record == nil || f.Record.Generation > r.Record.Generation) {
			r.Record = f.Record
		}
	}
	return r
}
