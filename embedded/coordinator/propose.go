package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// proposalTime is how long a proposal stays open, by the store's time, unless a command says otherwise; nobody waits
// for a proposal that a node made. Within an hour, a database of 8 GiB, the most that etcd's makers recommend, is
// fetched and built at 2.5 MB/s. A proposal that waits longer waits for something else, such as room, and the writes
// since would be lost. What was prepared is discarded, and the configuration may ask again.
const proposalTime = time.Hour

// NewRestore makes the proposal to continue from parent with a backup. attempts is the number of proposals for that
// generation so far, last the last known revision of the cluster, and bump the configured minimum.
func NewRestore(parent plan.Record, attempts int, b Backup, last, bump int64) plan.Restore {
	last = max(last, parent.Floor())
	r := proposal(parent, attempts)
	r.Backup, r.Digest, r.Revision, r.Bump = b.Name, b.Digest, b.Revision, max(bump, last-b.Revision+bump)
	return r
}

// proposal is a proposal to end a generation, without its source of data.
func proposal(parent plan.Record, attempts int) plan.Restore {
	id := make([]byte, 8)
	rand.Read(id) // never fails: crypto/rand ends the process instead
	return plan.Restore{
		Lasts:   proposalTime,
		Cluster: parent.Cluster, Generation: parent.Generation + 1, Attempt: attempts + 1,
		ID: hex.EncodeToString(id), Line: append(append([]string(nil), parent.Line...), parent.ID),
	}
}

// propose verifies the backup of a request and proposes its restore. A request that cannot be carried out is remembered
// with the reason, and is not tried again for a while.
func (rs *restorer) propose(ctx context.Context, o plan.Observation, a plan.Action) error {
	q, parent := *a.Request, o.Store.Record
	if parent == nil {
		return errors.New("the store knows no record to continue from")
	}
	if q.Survivor != "" {
		r := NewRecovery(*parent, o.Store.Attempts, q, o.Member.Revision, rs.cfg.RevisionBump)
		r.PeerURL = plan.SecureURL(*parent, o.Config.PeerURL)
		return rs.put(ctx, r)
	}
	b, err := rs.world.Backups.Check(ctx, q.Backup, parent.Lineage(), rs.status.progress)
	rs.status.progress(Progress{})
	if ctx.Err() != nil {
		return errNotYet
	}
	if err != nil {
		rs.restoring.refuse(q, err)
		return fmt.Errorf("restore for %s: %w", q.By, err)
	}
	last, err := rs.world.Backups.Revision(ctx, parent.Lineage())
	if err != nil {
		return fmt.Errorf("find the last known revision: %w", err)
	}
	m, _ := rs.world.Etcd.State()
	r := NewRestore(*parent, o.Store.Attempts, b, max(last, m.Revision), rs.cfg.RevisionBump)
	r.By, r.Command, r.Lost, r.PeerURL = q.By, q.Command, q.Lost, plan.SecureURL(*parent, o.Config.PeerURL)
	r.Slots = o.Founders(parent)
	// The configuration is an operator's order, so this node consents itself.
	if o, _ = rs.observer.observe(); o.Member.Leader && o.Member.Confirmed {
		r.Led = new(rs.stand(o))
		// Before the proposal: if the leader died in between, the proposal would wait for an operator.
		if err := rs.sentinel.consent(ctx, plan.Consent{Record: parent.ID, Proposal: r.ID, By: q.By}); err != nil {
			return err
		}
	}
	return rs.put(ctx, r)
}

// put puts a proposal into the store.
func (rs *restorer) put(ctx context.Context, r plan.Restore) error {
	defer rs.generations.ask()
	rs.world.Step("before-propose")
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := rs.world.Store.Propose(ctx, r); errors.Is(err, plan.ErrConflict) {
		rs.lg.Info("lost to another proposal", zap.Error(err))
		return errNotYet
	} else if err != nil {
		return fmt.Errorf("propose the %s: %w", r.Title(), err)
	}
	rs.world.Step("after-propose")
	rs.lg.Warn("proposed a "+r.Title(), zap.Int64("revision", r.Revision), zap.String("for", r.By))
	return nil
}

// dismiss deletes a command that will never be carried out.
func (rs *restorer) dismiss(ctx context.Context, a plan.Action) error {
	defer rs.generations.ask()
	q := *a.Request
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := rs.world.Store.Dismiss(ctx, q.Command); err != nil {
		return fmt.Errorf("delete a command that will not be carried out: %w", err)
	}
	rs.lg.Warn("deleted a command that will not be carried out", zap.String("command", q.Command),
		zap.String("backup", q.Backup), zap.String("why", q.Problem))
	rs.restoring.dismiss(q)
	return nil
}

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
	return r
}
