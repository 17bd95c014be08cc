package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// Rotated is the answer to POST /tls/rotate.
type Rotated struct {
	Meaning string   `json:"meaning"`
	Refuses []string `json:"refuses,omitempty"` // of a dry run: who will be refused, by whom and when
}

// rotateAuthorities takes the step of a rotation that an operator asks for. Any node can do it: if two nodes do, the
// store decides.
func (n routes) rotateAuthorities(r *http.Request) (any, error) {
	if n.editions == nil {
		return nil, fmt.Errorf("tls.mode is %s here: only the authorities of tls.mode "+
			"%s are holdfast's to rotate", n.cfg.TLS.Mode, pki.ModeAuto)
	}
	order := authorities.Order{By: control.WhoAsks(r), Now: r.FormValue("now") == "true",
		DropOld: r.FormValue("drop-old") == "true"}
	order.Begin = !order.Now && !order.DropOld
	if order.Now && order.DropOld {
		return nil, errors.New("now and drop-old are two steps: ask for one")
	}
	var a Rotated
	var err error
	v := authorities.ViewOf(n.coord.Now().Observation)
	if a.Meaning, err = n.editions.Advance(r.Context(), v, order, control.Dry(r)); err == nil && control.Dry(r) {
		looking, cancel := context.WithTimeout(r.Context(), authorities.StorePatience)
		defer cancel()
		issued, _ := n.issued.Look(looking) // on an error, the known ones are shown
		a.Refuses = n.editions.Refuses(v, order, n.statusOfAll(r.Context()), issued, time.Now())
	}
	return a, err
}
