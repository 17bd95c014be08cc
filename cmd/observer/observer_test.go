package observer

import (
	"testing"

	"holdfast/cmd/config"
)

// What the file says of listeners is meant for the node of the machine.
func TestSetHere(t *testing.T) {
	l := &config.Loaded{Origin: map[string]string{"a": "file config.yaml:3", "b": "flag --b", "c": "env HOLDFAST_C", "d": "derived from node.address", "e": "default"}}
	for key, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false, "e": false} {
		if got := setHere(l, key); got != want {
			t.Errorf("%s: got %t, want %t", l.Origin[key], got, want)
		}
	}
}
