package proposal

import (
	"context"
	"errors"
	"net/http"

	"holdfast/cmd/control"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// consenting answers POST /consent with an error, nil for none, and notes what was confirmed.
func consenting(confirmed *[]string, refusal error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		*confirmed = append(*confirmed, r.FormValue("proposal")+" by "+r.FormValue("by"))
		control.Reply(w, plan.Restore{}, refusal)
	})
	return mux
}

// putsOnce is a store that takes one more object.
type putsOnce struct {
	snapshot.Store
	full bool
}

func (p *putsOnce) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if p.full {
		return errors.New("the store is full")
	}
	p.full = true
	return p.Store.PutIfAbsent(ctx, name, data)
}
