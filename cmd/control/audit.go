package control

import (
	"fmt"
	"net/http"
	"time"
)

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
