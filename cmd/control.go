package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// The control socket is how commands on this machine talk to the running node: HTTP over a unix socket that
// only the node's user can open. Answers are JSON; an error is {"error": "..."} with a status of 4xx or 5xx.

// serveControl serves the control socket until ctx ends.
func (n *node) serveControl(ctx context.Context, path string) error {
	l, err := listenUnix(path)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: n.audited(n.control()), ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve the control socket: %w", err)
	case <-ctx.Done():
		err := s.Close()
		<-done
		return err
	}
}

// listenUnix listens on a socket that a process that is gone may have left behind, and on none that is in use.
func listenUnix(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if c, dialErr := net.Dial("unix", path); dialErr == nil {
			_ = c.Close()
			return nil, fmt.Errorf("control.socket: another process serves %s: is holdfast running here already? (give each node its own node.data-dir)", path)
		}
		if err = os.Remove(path); err == nil {
			l, err = net.Listen("unix", path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control.socket: %w", err), l.Close())
	}
	return l, nil
}

func (n *node) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.clusterStatus(r.Context())
		reply(w, s, err)
	})
	mux.HandleFunc("GET /doctor", n.controlDoctor)
	mux.HandleFunc("POST /doctor", n.controlRepair)
	mux.HandleFunc("POST /snapshot", n.controlSave)
	mux.HandleFunc("POST /look", func(w http.ResponseWriter, r *http.Request) {
		n.coord.AskStore()
		reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /recover", func(w http.ResponseWriter, r *http.Request) {
		reply(w, survey(n.coord.Now().Observation, r.FormValue("lost"), r.FormValue("survivor")), nil)
	})
	mux.HandleFunc("POST /found", func(w http.ResponseWriter, r *http.Request) {
		orders := plan.Orders{Abandon: r.FormValue("abandon") == "true", New: r.FormValue("new") == "true"}
		reply(w, struct{}{}, n.coord.Order(orders, dry(r)))
	})
	mux.HandleFunc("POST /adopt", func(w http.ResponseWriter, r *http.Request) {
		if dry(r) {
			path, err := n.coord.Adoptable()
			reply(w, adoptAnswer{path}, err)
			return
		}
		reply(w, adoptAnswer{}, n.coord.Adopt(r.Context()))
	})
	mux.HandleFunc("GET /downgrade", func(w http.ResponseWriter, r *http.Request) {
		d, err := n.downgrade(r.Context(), r.FormValue("to"))
		reply(w, d, err)
	})
	mux.HandleFunc("POST /downgrade", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, n.beginDowngrade(r.Context(), r.FormValue("to")))
	})
	mux.HandleFunc("DELETE /downgrade", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, n.etcd.CancelDowngrade(r.Context()))
	})
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer cancel()
		report, err := n.coord.Drain(ctx, coordinator.DrainOptions{Force: r.FormValue("force") == "true", Dry: dry(r)})
		reply(w, report, err)
	})
	mux.HandleFunc("POST /undrain", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, n.coord.Undrain(dry(r)))
	})
	mux.HandleFunc("POST /pause", n.controlPause)
	mux.HandleFunc("GET /auth", n.controlAuth)
	mux.HandleFunc("POST /auth", n.controlAuth)
	mux.HandleFunc("POST /resume", n.controlResume)
	mux.HandleFunc("GET /history", n.controlHistory)
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		if dry(r) {
			id, err := n.coord.Releasable()
			reply(w, releaseAnswer{Slot: id.Slot, Volume: id.Volume}, err)
			return
		}
		// Whoever has asked may go away: what was begun is brought to its end.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer cancel()
		id, err := n.coord.GiveUp(ctx)
		reply(w, releaseAnswer{Slot: id.Slot, Volume: id.Volume}, err)
	})
	return mux
}

// releaseTime bounds a release or a drain: the hand-over, the end of etcd, and the minute a detach may take.
const releaseTime = 3 * time.Minute

type controlError struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		v = controlError{err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody to tell
}

// saveEvent is one line of the answer to POST /snapshot: progress, then a result or an error.
type saveEvent struct {
	Progress *snapshot.Progress `json:"progress,omitempty"`
	Saved    *snapshot.Meta     `json:"saved,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// wouldSave returns whose backup would be saved now, and an error if none could be.
func (n *node) wouldSave(ctx context.Context) (snapshot.Meta, error) {
	tx, meta, err := n.Begin(ctx)
	if err != nil {
		return meta, err
	}
	if err := tx.Close(); err != nil {
		return meta, err
	}
	if _, err := storeIdentity(ctx, n.store, n.cfg.Cluster.Name); err != nil {
		return meta, fmt.Errorf("read %s: %w", n.cfg.Snapshot.Store, err)
	}
	return meta, nil
}

func (n *node) controlSave(w http.ResponseWriter, r *http.Request) {
	if dry(r) {
		meta, err := n.wouldSave(r.Context())
		reply(w, meta, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flow := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	send := func(e saveEvent) {
		_ = enc.Encode(e) // the client is gone: its context ends the save
		_ = flow.Flush()
	}
	meta, err := n.keeper.Save(r.Context(), func(p snapshot.Progress) { send(saveEvent{Progress: &p}) })
	if err != nil {
		send(saveEvent{Error: err.Error()})
		return
	}
	send(saveEvent{Saved: &meta})
}

// client talks to the node on this machine.
type client struct {
	socket string
	http   http.Client
}

// errUnreachable is wrapped when no node answers on the socket.
var errUnreachable = errors.New("no node answers")

func newClient(socket string) *client {
	var d net.Dialer
	return &client{socket: socket, http: http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
		DisableKeepAlives: true,
	}}}
}

// call sends a request and returns the body of a good answer, which the caller closes.
func (c *client) call(ctx context.Context, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://holdfast"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w; is holdfast running here? (--config FILE or --control.socket says which node is meant)", errUnreachable, c.socket, errors.Unwrap(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e controlError
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Error == "" {
		return nil, fmt.Errorf("the node on %s answered %s", c.socket, resp.Status)
	}
	return nil, errors.New(e.Error)
}

// get asks and decodes the answer into v.
func (c *client) get(ctx context.Context, method, path string, v any) error {
	body, err := c.call(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", c.socket, err)
	}
	return nil
}

// self returns what the node says of itself.
func (c *client) self(ctx context.Context) (coordinator.NodeStatus, error) {
	var s coordinator.ClusterStatus
	if err := c.get(ctx, http.MethodGet, "/status", &s); err != nil {
		return coordinator.NodeStatus{}, err
	}
	for _, n := range s.Nodes {
		if n.Node == s.Asked {
			return n, nil
		}
	}
	return coordinator.NodeStatus{}, fmt.Errorf("the node on %s does not know itself", c.socket)
}

// save asks for a backup and follows it.
func (c *client) save(ctx context.Context, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	body, err := c.call(ctx, http.MethodPost, "/snapshot")
	if err != nil {
		return snapshot.Meta{}, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e saveEvent
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&e); err != nil {
			return snapshot.Meta{}, fmt.Errorf("decode the answer of %s: %w", c.socket, err)
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

// addClientFlags adds the flags that say which node, and which cluster's store, a command is for. All other
// keys work as well; they are not shown, because they seldom matter here.
func addClientFlags(fs *pflag.FlagSet, shown ...string) {
	addConfigFlags(fs)
	visible := map[string]bool{configFlag: true, "control.socket": true}
	for _, name := range shown {
		visible[name] = true
	}
	fs.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !visible[f.Name] })
}

// loadClient reads the configuration for a command that talks to a node.
func loadClient(c *cobra.Command) (Config, *client, error) {
	l, err := Load("", c.Flags(), os.Environ())
	if err != nil {
		return Config{}, nil, err
	}
	return l.Config, newClient(l.Config.Control.Socket), nil
}
