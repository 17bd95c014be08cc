package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// serveControl serves the control socket, and other machines if the configuration says so, until ctx ends. What operators
// ask for is in the node's history, with who asked and what came of it.
func (n *process) serveControl(ctx context.Context) error {
	s := control.Server{Config: n.cfg.Control, CertFile: n.cfg.Etcd.CertFile, KeyFile: n.cfg.Etcd.KeyFile, CAFile: n.cfg.Etcd.TrustedCAFile, Log: n.lg,
		Remember: func(d control.Answered) {
			e := coordinator.Entry{Kind: coordinator.EntryCommand, Why: d.Command, By: d.By, Outcome: coordinator.Done, Seconds: d.Took.Seconds(), Error: d.Error}
			if e.Error != "" {
				e.Outcome = coordinator.Failed
			}
			n.coord.Remember(e)
		}}
	return s.Serve(ctx, n.control())
}

func (n *process) control() *control.Routes {
	mux := new(control.Routes)
	mux.Stream("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.clusterStatus(r.Context())
		control.Reply(w, s, err)
	})
	mux.Stream("GET /doctor", n.controlDoctor)
	mux.Stream("POST /doctor", n.controlRepair)
	mux.Stream("POST /snapshot", n.controlSave, control.DryRun)
	mux.Stream("POST /look", func(w http.ResponseWriter, r *http.Request) {
		n.coord.AskStore()
		control.Reply(w, struct{}{}, nil)
	}, control.Unremembered)
	mux.Stream("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		p, err := n.coord.Confirm(r.Context(), r.FormValue("proposal"), r.FormValue("by"))
		control.Reply(w, p, err)
	})
	mux.Stream("POST /rejoin", func(w http.ResponseWriter, r *http.Request) {
		control.Reply(w, struct{}{}, n.rejoin(r.Context(), control.Dry(r)))
	}, control.DryRun)
	mux.Stream("GET /rejoin", func(w http.ResponseWriter, r *http.Request) {
		last, _ := strconv.ParseInt(r.FormValue("revision"), 10, 64)
		p, err := n.coord.Continue(slots(r), last, r.FormValue("led") == "true")
		control.Reply(w, p, err)
	})
	mux.Stream("POST /recover/alone", func(w http.ResponseWriter, r *http.Request) {
		p, err := n.coord.RecoverAlone(slots(r), r.FormValue("by"), control.Dry(r))
		control.Reply(w, p, err)
	}, control.DryRun)
	mux.Stream("GET /recover", func(w http.ResponseWriter, r *http.Request) {
		control.Reply(w, survey(n.coord.Now().Observation, r.FormValue("lost"), r.FormValue("survivor")), nil)
	})
	mux.Stream("POST /found", func(w http.ResponseWriter, r *http.Request) {
		orders := plan.Orders{Abandon: r.FormValue("abandon") == "true", New: r.FormValue("new") == "true"}
		control.Reply(w, struct{}{}, n.coord.Order(orders, control.Dry(r)))
	}, control.DryRun)
	mux.Stream("POST /adopt", func(w http.ResponseWriter, r *http.Request) {
		if control.Dry(r) {
			_, path, err := n.coord.MaySetVolumeAside()
			control.Reply(w, adoptAnswer{path}, err)
			return
		}
		control.Reply(w, adoptAnswer{}, n.coord.SetVolumeAside(r.Context()))
	}, control.DryRun)
	mux.Stream("GET /downgrade", func(w http.ResponseWriter, r *http.Request) {
		d, err := n.downgrade(r.Context(), r.FormValue("to"))
		control.Reply(w, d, err)
	})
	mux.Stream("POST /downgrade", func(w http.ResponseWriter, r *http.Request) {
		control.Reply(w, struct{}{}, n.beginDowngrade(r.Context(), r.FormValue("to")))
	})
	mux.Stream("DELETE /downgrade", func(w http.ResponseWriter, r *http.Request) {
		control.Reply(w, struct{}{}, n.etcd.CancelDowngrade(r.Context()))
	})
	mux.Stream("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer cancel()
		report, err := n.coord.Drain(ctx, coordinator.DrainOptions{Force: r.FormValue("force") == "true", Dry: control.Dry(r)})
		control.Reply(w, report, err)
	}, control.DryRun)
	mux.Stream("POST /undrain", func(w http.ResponseWriter, r *http.Request) {
		control.Reply(w, struct{}{}, n.coord.Undrain(control.Dry(r)))
	}, control.DryRun)
	mux.Stream("POST /tls/rotate", n.controlRotateCA, control.DryRun)
	mux.Stream("POST /pause", n.controlPause, control.DryRun)
	mux.Stream("GET /auth", n.controlAuth)
	mux.Stream("POST /auth", n.controlAuth, control.DryRun)
	mux.Stream("POST /resume", n.controlResume, control.DryRun)
	mux.Stream("GET /history", n.controlHistory)
	mux.Stream("GET /gossip/keys", n.controlGossipKeys)
	mux.Stream("POST /gossip/rotate", n.controlGossipRotate, control.DryRun)
	mux.Stream("POST /gossip/forget", n.controlGossipForget, control.DryRun)
	mux.Stream("POST /release", func(w http.ResponseWriter, r *http.Request) {
		if control.Dry(r) {
			id, err := n.coord.Releasable()
			control.Reply(w, releaseAnswer{Slot: id.Slot, Volume: id.Volume}, err)
			return
		}
		// Whoever has asked may go away: what was begun is brought to its end.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer cancel()
		id, err := n.coord.GiveUp(ctx)
		control.Reply(w, releaseAnswer{Slot: id.Slot, Volume: id.Volume}, err)
	}, control.DryRun)
	return mux
}

// slots are those that a request declares lost.
func slots(r *http.Request) []string {
	return strings.FieldsFunc(r.FormValue("lost"), func(c rune) bool { return c == ',' })
}

// releaseTime bounds a release or a drain: the hand-over, the end of etcd, and the minute a detach may take.
const releaseTime = 3 * time.Minute

// saveEvent is one line of the answer to POST /snapshot: progress, then a result or an error.
type saveEvent struct {
	Progress *snapshot.Progress `json:"progress,omitempty"`
	Saved    *snapshot.Meta     `json:"saved,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// wouldSave returns whose backup would be saved now, and an error if none could be.
func (n *process) wouldSave(ctx context.Context) (snapshot.Meta, error) {
	tx, meta, err := n.Begin(ctx)
	if err != nil {
		return meta, err
	}
	if err := tx.Close(); err != nil {
		return meta, err
	}
	if _, err := generations.Identity(ctx, n.store, n.cfg.Cluster.Name); err != nil {
		return meta, fmt.Errorf("read %s: %w", n.cfg.Snapshot.Store, err)
	}
	return meta, nil
}

func (n *process) controlSave(w http.ResponseWriter, r *http.Request) {
	if control.Dry(r) {
		meta, err := n.wouldSave(r.Context())
		control.Reply(w, meta, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flow := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	send := func(e saveEvent) {
		_ = flow.SetWriteDeadline(time.Now().Add(control.WriteTime))
		_ = enc.Encode(e) // the client is gone: its context ends the save
		_ = flow.Flush()
	}
	meta, err := n.keeper.Save(r.Context(), func(p snapshot.Progress) { send(saveEvent{Progress: &p}) })
	if err != nil {
		control.Failed(w, err)
		send(saveEvent{Error: err.Error()})
		return
	}
	send(saveEvent{Saved: &meta})
}

// saveBy asks a node for a backup and follows it.
func saveBy(ctx context.Context, c *control.Client, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	body, err := c.Call(ctx, http.MethodPost, "/snapshot")
	if err != nil {
		return snapshot.Meta{}, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e saveEvent
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&e); err != nil {
			return snapshot.Meta{}, fmt.Errorf("decode the answer of %s: %w", c.At, err)
		}
		switch {
		case e.Progress != nil:
			progress(*e.Progress)
		case e.Saved != nil:
			return *e.Saved, nil
		default:
			return snapshot.Meta{}, errors.New(e.Error)
		}
	}
	return snapshot.Meta{}, fmt.Errorf("the node ended while it saved: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
