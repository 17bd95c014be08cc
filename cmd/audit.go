package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"holdfast/embedded/coordinator"
)

// What operators ask of the node by way of the control socket is in its history, with who asked and what came of it.

// audited remembers every request that changes something, when it is answered. With dry=true those of dryPaths do not; the
// others know no dry run, and do what they always do.
func (n *node) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changes := r.Method == http.MethodPost || r.Method == http.MethodDelete
		if !changes || r.URL.Path == "/look" || looks(r) {
			next.ServeHTTP(w, r)
			return
		}
		begin, heard := time.Now(), &listener{ResponseWriter: w}
		next.ServeHTTP(heard, r)
		e := coordinator.Entry{Kind: coordinator.EntryCommand, Why: commandText(r), Outcome: coordinator.Done, Seconds: time.Since(begin).Seconds()}
		who, _ := r.Context().Value(peerKey{}).(caller)
		e.By = who.name
		if e.Error = heard.failure(); e.Error != "" {
			e.Outcome = coordinator.Failed
		}
		n.coord.Remember(e)
	})
}

// dry reports whether a request only asks what would be done.
func dry(r *http.Request) bool { return r.FormValue("dry") == "true" }

// commandText is the command with its arguments, those that say nothing left out.
func commandText(r *http.Request) string {
	text := r.URL.Path[1:]
	if r.Method == http.MethodDelete {
		text += " cancel"
	}
	for _, name := range []string{"abandon", "new", "force", "to", "fix", "now", "drop-old", "proposal", "by", "why", "node"} {
		if v := r.FormValue(name); v != "" && v != "false" {
			text += fmt.Sprintf(" %s=%q", name, v)
		}
	}
	return text
}

// listener keeps the last line of an answer, which tells of an error, if there is one.
type listener struct {
	http.ResponseWriter
	last []byte
}

// Unwrap lets a controller of the answer reach the connection.
func (l *listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *listener) Write(data []byte) (int, error) {
	l.last = bytes.Clone(data)
	return l.ResponseWriter.Write(data)
}

// failure is the error that was answered. Every answer is written a line at a time.
func (l *listener) failure() string {
	var e controlError
	if json.Unmarshal(l.last, &e) != nil {
		return ""
	}
	return e.Error
}
