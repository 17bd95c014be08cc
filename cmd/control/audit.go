package control

import (
	"fmt"
	"net/http"
	"time"
)

// audited remembers every request that changes something, when it is answered. A route that knows no dry run does what
// it always does, also with dry=true.
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

// commandText is the command with its arguments, those that say nothing left out.
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

// listener remembers the error that is answered.
type listener struct {
	http.ResponseWriter
	failed string
}

// Unwrap lets a controller of the answer reach the connection.
func (l *listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Failed notes that a request has failed, for anyone who remembers it.
func Failed(w http.ResponseWriter, err error) {
	if l, ok := w.(*listener); ok {
		l.failed = err.Error()
	}
}
