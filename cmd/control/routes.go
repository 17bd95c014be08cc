package control

import (
	"net/http"
)

// How is what is known of a route.
type How int

const (
	// DryRun: with dry=true nothing is changed. Who may only look may ask for that, and it is not remembered.
	DryRun How = iota
	// Unremembered: it changes something, and nothing that the history should tell.
	Unremembered
)

// Dry reports whether a request only asks what would be done.
func Dry(r *http.Request) bool { return r.FormValue("dry") == "true" }
