package cmd

import (
	"testing"
	"time"

	"holdfast/cmd/proposal"
)

// People write a blank after a comma.
func TestLostWithBlanks(t *testing.T) {
	f := proposalFlags{Options: proposal.Options{Lost: []string{"b", " c"}, Timeout: time.Second}}
	if err := f.check(); err != nil || f.Lost[1] != "c" {
		t.Errorf("got %v, %q", err, f.Lost)
	}
}
