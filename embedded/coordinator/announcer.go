package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"

	"holdfast/embedded/plan"
)

// ReadFacts reads the facts that a node published. The error wraps [plan.ErrUnsupported] if a newer version did, else
// it says what is not whole.
func ReadFacts(data []byte) (*plan.Facts, error) {
	var v struct{ Version int } // of a later version the rest may be of other types
	f := new(plan.Facts)
	err := json.Unmarshal(data, &v)
	if err == nil && v.Version > 1 {
		f.Version = v.Version
	} else if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err == nil {
		err = f.Valid()
	}
	switch {
	case errors.Is(err, plan.ErrUnsupported):
		return nil, fmt.Errorf("unsupported: %w", err)
	case err != nil:
		return nil, fmt.Errorf("not whole: %w", err)
	}
	return f, nil
}

// Evidence reports whether what a node published bears witness of a cluster, or may. Such words are kept from being
// forgotten by time where they may be needed.
func Evidence(state []byte) bool {
	if state == nil {
		return false
	}
	var f plan.Facts
	err := json.Unmarshal(state, &f)
	return err != nil || f.Version != 1 || f.Evidence()
}
