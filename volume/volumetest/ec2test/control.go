package ec2test

import (
	"encoding/json"
	"net/http"
)

// terminatePath is where the operator of a demonstration ends an instance: POST {"ID": "i-…"}.
const terminatePath = "/_control/terminate"

// serveTerminate terminates an instance. It answers an error with its text.
func (c *Cloud) serveTerminate(w http.ResponseWriter, r *http.Request) {
	var of struct{ ID string }
	if err := json.NewDecoder(r.Body).Decode(&of); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	} else if err := c.TerminateInstance(of.ID); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}
