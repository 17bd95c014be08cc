package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
)

// Server answers commands on the control socket and, if control.listen is set, from other machines.
type Server struct {
	Config                    config.Control
	CertFile, KeyFile, CAFile string // the node's certificate for other machines, and the authorities of theirs
	Mesh                      *Mesh  // nil if the node issues no certificates
	Log                       *zap.Logger
	Remember                  func(Answered) // is called for each request that changes something
}

// Mesh is for callers with a certificate of the peers' authority: observers and operators. They connect to the same
// address with another server name, and both sides use other certificates. They may ask only for what concerns
// themselves.
type Mesh struct {
	Name        string // the server name, which is in the node's certificate
	Certificate func() (*tls.Certificate, error)
	Authorities func() (*x509.CertPool, error)
}

// Answered is a request that changes something, after it was answered.
type Answered struct {
	Command string // with its arguments
	By      string // the caller; "" if the system does not know it
	Took    time.Duration
	Error   string // "" for none
}

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context, routes *Routes) error {
	socket, err := listenAt(s.Config.Socket, s.Log)
	if err != nil {
		return err
	}
	listeners := []net.Listener{socket}
	if s.Config.Listen != "" {
		remote, err := s.listenRemote()
		if err != nil {
			return errors.Join(err, socket.Close())
		}
		s.Log.Info("remote control listened", zap.Stringer("address", remote.Addr()),
			zap.Strings("readers", s.Config.Readers), zap.Strings("operators", s.Config.Operators))
		listeners = append(listeners, remote)
	}
	return s.answerOn(ctx, s.guarded(s.audited(routes), routes), listeners)
}

// answerOn serves until ctx ends.
func (s *Server) answerOn(ctx context.Context, h http.Handler, listeners []net.Listener) (err error) {
	server := &http.Server{
		Handler: h, ConnContext: withPeer, ErrorLog: zap.NewStdLog(s.Log.Named("control")),
		ReadHeaderTimeout: headerTime, MaxHeaderBytes: 16 << 10,
	}
	// The handshake verifies a certificate for one request. It may expire, or its authority be dropped, before the next.
	server.SetKeepAlivesEnabled(false)
	done := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { done <- server.Serve(l) }()
	}
	select {
	case err = <-done:
		err = fmt.Errorf("serve the control socket: %w", errors.Join(err, server.Close()))
	case <-ctx.Done():
		err = server.Close()
		<-done
	}
	for range listeners[1:] {
		<-done
	}
	return err
}

type failure struct {
	Error string `json:"error"`
}

// Reply answers with v as JSON, or with the error.
func Reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		Failed(w, err)
		w.WriteHeader(http.StatusConflict)
		writeError(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // fails only if the client is gone
}

func writeError(w io.Writer, err error) {
	_ = json.NewEncoder(w).Encode(failure{err.Error()}) // fails only if the client is gone
}

// audited calls Remember for every request that changes something, after it was answered. A route without DryRun
// ignores dry=true, so its requests are remembered.
func (s *Server) audited(routes *Routes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changes := r.Method == http.MethodPost || r.Method == http.MethodDelete
		if !changes || routes.is(r, Unremembered) || routes.looks(r) {
			routes.ServeHTTP(w, r)
			return
		}
		begin, heard := time.Now(), &listener{ResponseWriter: w}
		routes.ServeHTTP(heard, r)
		s.Remember(Answered{Command: commandText(r), By: WhoAsks(r), Took: time.Since(begin), Error: heard.failed})
	})
}

// commandText returns the command with its arguments, without empty and false ones.
func commandText(r *http.Request) string {
	text := r.URL.Path[1:]
	if r.Method == http.MethodDelete {
		text += " cancel"
	}
	for _, name := range []string{"abandon", "new", "force", "to", "lost", "fix", "now", "drop-old", "proposal", "by",
		"why", "node"} {
		if v := r.FormValue(name); v != "" && v != "false" {
			text += fmt.Sprintf(" %s=%q", name, v)
		}
	}
	return text
}

// listener is a ResponseWriter that remembers the error in the answer.
type listener struct {
	http.ResponseWriter
	failed string
}

// Unwrap is for [http.ResponseController].
func (l *listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Failed notes the error of a request for the history. A handler that does not use [Reply] must call it.
func Failed(w http.ResponseWriter, err error) {
	if l, ok := w.(*listener); ok {
		l.failed = err.Error()
	}
}
