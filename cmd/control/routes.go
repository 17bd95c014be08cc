package control

import (
	"net/http"
	"slices"
)

// Routes is the table of a node's requests and their handlers. The options of a route say who may call it, and whether
// the history gets an entry.
type Routes struct {
	mux http.ServeMux
	how map[string][]How // by method and path
}

// How is an option of a route.
type How int

const (
	// DryRun means that the route changes nothing with dry=true. A reader may then call it, and it is not remembered.
	DryRun How = iota
	// Unremembered means that the history gets no entry, or that the handler adds one itself.
	Unremembered
	// Own means that the route is only about the caller's own certificate. So anyone with a certificate of the clients' or
	// the peers' authority may call it.
	Own
)

// Answer serves a route such as "POST /pause" with JSON. A GET must change nothing.
func (rs *Routes) Answer(route string, answer func(*http.Request) (any, error), how ...How) {
	rs.Stream(route, func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		Reply(w, v, err)
	}, how...)
}

// Do serves a route whose answer is only success or an error.
func (rs *Routes) Do(route string, act func(*http.Request) error, how ...How) {
	rs.Answer(route, func(r *http.Request) (any, error) { return struct{}{}, act(r) }, how...)
}

// Stream serves a route that answers with more than one value.
func (rs *Routes) Stream(route string, answer http.HandlerFunc, how ...How) {
	rs.mux.HandleFunc(route, answer)
	if rs.how == nil {
		rs.how = map[string][]How{}
	}
	rs.how[route] = how
}

// ServeHTTP answers a request without checking the caller, which [Server] does.
func (rs *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) { rs.mux.ServeHTTP(w, r) }

// Dry reports whether a request is a dry run.
func Dry(r *http.Request) bool { return r.FormValue("dry") == "true" }

// is reports whether the route of a request has an option.
func (rs *Routes) is(r *http.Request, what How) bool {
	return slices.Contains(rs.how[r.Method+" "+r.URL.Path], what)
}

// looks reports whether a request changes nothing.
func (rs *Routes) looks(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodPost && rs.is(r, DryRun) && Dry(r)
}
