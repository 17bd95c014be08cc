package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/volume"
)

// routes are what operators can ask of the node.
type routes struct{ *node }

// serve serves the control socket and, if control.listen is set, other machines, until ctx ends. It adds the operators'
// requests to the node's history, with the caller and the result.
func (n routes) serve(ctx context.Context) error {
	s := control.Server{Config: n.cfg.Control, CertFile: n.cfg.Etcd.CertFile, KeyFile: n.cfg.Etcd.KeyFile,
		CAFile: n.cfg.Etcd.TrustedCAFile, Log: n.lg,
		Remember: func(d control.Answered) {
			n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryCommand, Why: d.Command, By: d.By,
				Outcome: coordinator.Done, Seconds: d.Took.Seconds(), Error: d.Error})
		}}
	if n.cfg.TLS.Issues() {
		s.Mesh = &control.Mesh{Name: pki.MeshName(n.cfg.Zone()), Certificate: n.certificates.MeshCertificate,
			Authorities: n.certificates.MeshAuthorities}
	}
	return s.Serve(ctx, n.routes())
}

// routes returns the table of requests.
func (n routes) routes() *control.Routes {
	rs := new(control.Routes)
	yes := func(r *http.Request, key string) bool { return r.FormValue(key) == "true" }

	rs.Answer("GET /status", func(r *http.Request) (any, error) { return n.statusOfAll(r.Context()), nil })
	rs.Answer("GET /doctor", func(r *http.Request) (any, error) {
		return n.collect(r.Context()).Report(n.cfg.Cluster.Slots), nil
	})
	rs.Do("POST /doctor", func(r *http.Request) error { return n.repair(r.Context(), r.FormValue("fix")) })
	rs.Do("POST /look", func(*http.Request) error { n.coord.AskStore(); return nil }, control.Unremembered)
	rs.Stream("POST /snapshot", n.controlSave, control.DryRun)
	rs.Answer("GET /history", n.history)

	rs.Answer("GET /recover", func(r *http.Request) (any, error) {
		return coordinator.Survey(n.coord.Now().Observation, r.FormValue("lost"), r.FormValue("survivor")), nil
	})
	rs.Answer("POST /recover/alone", func(r *http.Request) (any, error) {
		return n.coord.RecoverAlone(slots(r), r.FormValue("by"), control.Dry(r))
	}, control.DryRun)
	rs.Answer("POST /consent", func(r *http.Request) (any, error) {
		return n.coord.Confirm(r.Context(), r.FormValue("proposal"), r.FormValue("by"))
	})
	rs.Answer("GET /rejoin", func(r *http.Request) (any, error) {
		last, _ := strconv.ParseInt(r.FormValue("revision"), 10, 64)
		return n.coord.Continue(slots(r), last, yes(r, "led"))
	})
	rs.Do("POST /rejoin", func(r *http.Request) error { return n.rejoin(r.Context(), control.Dry(r)) }, control.DryRun)
	rs.Do("POST /found", func(r *http.Request) error {
		return n.coord.Order(plan.Orders{Abandon: yes(r, "abandon"), New: yes(r, "new")}, control.Dry(r))
	}, control.DryRun)

	rs.Answer("POST /volume/set-aside", n.setAside, control.DryRun)
	rs.Answer("POST /release", n.release, control.DryRun)
	rs.Answer("POST /drain", func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer cancel()
		return n.coord.Drain(ctx, coordinator.DrainOptions{Force: yes(r, "force"), Dry: control.Dry(r)})
	}, control.DryRun)
	rs.Do("POST /undrain", func(r *http.Request) error { return n.undrain(control.Dry(r)) }, control.DryRun)
	rs.Answer("GET /takeover", func(r *http.Request) (any, error) { return n.takeoverOf(n.statusOfAll(r.Context())), nil })
	rs.Answer("POST /takeover/release", n.giveBack, control.DryRun)
	rs.Do("POST /pause", n.pause, control.DryRun)
	rs.Answer("POST /resume", n.resume, control.DryRun)
	rs.Answer("GET /downgrade", func(r *http.Request) (any, error) { return n.downgrade(r.Context(), r.FormValue("to")) })
	rs.Do("POST /downgrade", func(r *http.Request) error { return n.beginDowngrade(r.Context(), r.FormValue("to")) })
	rs.Do("DELETE /downgrade", func(r *http.Request) error { return n.etcd.CancelDowngrade(r.Context()) })

	rs.Answer("GET /auth", n.users)
	rs.Answer("POST /auth", n.users, control.DryRun)
	rs.Answer("POST /tls/rotate", n.rotateAuthorities, control.DryRun)
	rs.Answer("GET /tls/client", n.lookAtOwn, control.Own)
	rs.Answer("POST /tls/client", n.renewOwn, control.Own, control.Unremembered)
	rs.Answer("POST /gossip/forget", n.forget, control.DryRun)
	return rs
}

// Released is the answer to POST /release.
type Released struct {
	Slot   string `json:"slot"`
	Volume string `json:"volume"`
}

// Aside is the answer to POST /volume/set-aside: the volume, and for a dry run its contents.
type Aside struct {
	Slot     string          `json:"slot"`
	Path     string          `json:"path"`
	Contents volume.Contents `json:"contents"`
}

// setAside sets everything on the volume aside. Another cluster may have written it.
func (n routes) setAside(r *http.Request) (any, error) {
	v, err := n.coord.MaySetVolumeAside()
	if err != nil {
		return nil, err
	}
	aside := Aside{Slot: v.Slot, Path: v.Path}
	if control.Dry(r) {
		aside.Contents, err = volume.Look(v.Path)
	} else {
		err = n.coord.SetVolumeAside(r.Context())
	}
	return aside, err
}

func (n routes) release(r *http.Request) (any, error) {
	if control.Dry(r) {
		id, err := n.coord.Releasable()
		return Released{Slot: id.Slot, Volume: id.ID}, err
	}
	// The release must not stop half-way if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
	defer cancel()
	id, err := n.coord.GiveUp(ctx)
	return Released{Slot: id.Slot, Volume: id.ID}, err
}

func (n routes) history(r *http.Request) (any, error) {
	after, err := time.Parse(time.RFC3339Nano, r.FormValue("after"))
	if err != nil {
		return nil, fmt.Errorf("after: must be a time, got %q", r.FormValue("after"))
	}
	return n.coord.History(after), nil
}

func (n routes) pause(r *http.Request) error {
	p := plan.Pause{By: r.FormValue("by"), Why: r.FormValue("why"), Since: time.Now().UTC().Truncate(time.Second)}
	return n.coord.Pause(r.Context(), p, control.Dry(r))
}

// slots returns the slots that a request declares lost.
func slots(r *http.Request) []string {
	return strings.FieldsFunc(r.FormValue("lost"), func(c rune) bool { return c == ',' })
}

// releaseTime limits a release or a drain: the hand-over of leadership, the stop of etcd, and a detach of up to a
// minute.
const releaseTime = 3 * time.Minute

// SaveEvent is one line of the answer to POST /snapshot: progress, then a result or an error.
type SaveEvent struct {
	Progress *snapshot.Progress `json:"progress,omitempty"`
	Saved    *Saved             `json:"saved,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// Saved is a backup and the store that has it, or would have it. A node uses its own store, which may not be that of
// the command's configuration.
type Saved struct {
	snapshot.Meta
	Store string `json:"store"`
}

// wouldSave returns the backup that would be saved now, and an error if none could be saved.
func (n routes) wouldSave(ctx context.Context) (Saved, error) {
	tx, meta, err := source(n).Begin(ctx)
	saved := Saved{Meta: meta, Store: n.cfg.Snapshot.Store}
	if err != nil {
		return saved, err
	}
	if err := tx.Close(); err != nil {
		return saved, err
	}
	if _, err := generations.Identity(ctx, n.store, n.cfg.Cluster.Name); err != nil {
		return saved, fmt.Errorf("read %s: %w", saved.Store, err)
	}
	return saved, nil
}

func (n routes) controlSave(w http.ResponseWriter, r *http.Request) {
	if control.Dry(r) {
		saved, err := n.wouldSave(r.Context())
		control.Reply(w, saved, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flow := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	send := func(e SaveEvent) {
		_ = flow.SetWriteDeadline(time.Now().Add(control.WriteTime))
		_ = enc.Encode(e) // if the client is gone, its context ends the save
		_ = flow.Flush()
	}
	meta, err := n.keeper.Save(r.Context(), func(p snapshot.Progress) { send(SaveEvent{Progress: &p}) })
	if err != nil {
		control.Failed(w, err)
		send(SaveEvent{Error: err.Error()})
		return
	}
	send(SaveEvent{Saved: &Saved{Meta: meta, Store: n.cfg.Snapshot.Store}})
}

// rejoin sets aside the data of this node, because the cluster has continued without it, or because it differs from the
// data of the other members.
func (n routes) rejoin(ctx context.Context, dry bool) error {
	apart := n.coord.Rejoin(dry)
	if !errors.Is(apart, coordinator.ErrNotApart) {
		return apart
	}
	s := n.statusOfAll(ctx)
	if err := s.Vote().Odd(n.cfg.Node.Name); err != nil {
		return fmt.Errorf("there is nothing to choose: %w, and %w", apart, err)
	}
	return n.coord.Part(dry)
}

// users answers GET /auth with the steps that would be made, and POST /auth with those that were.
func (n routes) users(r *http.Request) (any, error) {
	if r.Method != http.MethodPost || control.Dry(r) {
		return n.auth.Plan()
	}
	report, err := n.auth.Apply(r.Context())
	if err != nil && len(report.Steps) > 0 {
		err = fmt.Errorf("%w; before that, %d steps were made (see `holdfast history`)", err, len(report.Steps))
	}
	return report, err
}
