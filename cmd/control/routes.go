package control

import (
	"net/http"
	"slices"
)

// Routes are what a node can be asked for, each with how it is answered. Who may ask for it, and whether the history
// has it, follows from that.
type Routes struct {
	mux http.ServeMux
	how map[string][]How // by method and path
}

// How is what is known of a route.
type How int

const (
	// DryRun: with dry=true nothing is changed. Who may only look may ask for that, and it is not remembered.
	DryRun How = iota
	// Unremembered: it changes something, and nothing that the history should tell, or it tells it itself.
	Unremembered
	// Own: it concerns the certificate that is shown alone, and so anyone with one of the clients' authority, or of the
	// peers', may ask.
	Own
)

// Answer serves a route, as "POST /pause", with JSON. What is asked for by GET changes nothing.
func (rs *Routes) Answer(route string, answer func(*http.Request) (any, error), how ...How) {
	rs.Stream(route, func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		Reply(w, v, err)
	}, how...)
}

// Do serves a route that has nothing to answer but how it went.
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

// ServeHTTP answers a request of anyone: [Server] decides who may ask.
func (rs *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) { rs.mux.ServeHTTP(w, r) }

// Dry reports whether a request only asks what would be done.
func Dry(r *http.Request) bool { return r.FormValue("dry") == "true" }

// is reports whether something is known of the route that a request is for.
func (rs *Routes) is(r *http.Request, what How) bool {
	return slices.Contains(rs.how[r.Method+" "+r.URL.Path], what)
}

// looks reports whether a request changes nothing.
func (rs *Routes) looks(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodPost && rs.is(r, DryRun) && Dry(r)
}
