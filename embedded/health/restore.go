package health

import (
	"fmt"
	"math"
)

// RestoreStatus is how far a node is with a restore or a recovery that is under way.
type RestoreStatus struct {
	ID         string `json:"id"`               // of the proposal
	Title      string `json:"title"`            // restore of …, or recovery from …
	Backup     string `json:"backup,omitempty"` // of a restore
	Generation uint64 `json:"generation"`
	Attempt    int    `json:"attempt"`
	By         string `json:"by"`
	State      string `json:"state"`           // one of the states of a restore
	Phase      string `json:"phase,omitempty"` // while preparing
	Done       int64  `json:"done,omitempty"`  // bytes of the database, of Total
	Total      int64  `json:"total,omitempty"`
	Error      string `json:"error,omitempty"` // why the last attempt to prepare it failed
	// Objecting is for how many seconds more this node waits for a leader that objects to a leaderless proposal. If it
	// Leaves, its member stops then for good.
	Objecting float64 `json:"objecting,omitempty"`
	Leaves    bool    `json:"leaves,omitempty"`
	Left      bool    `json:"left,omitempty"` // its member has left the generation for the proposal
}

// The states of a restore or a recovery on one node.
const (
	RestoreUnconfirmed = "unconfirmed" // nothing begins before an operator confirms it on a node of the cluster
	RestoreWaiting     = "waiting"     // nothing has begun here
	RestorePreparing   = "preparing"
	RestorePrepared    = "prepared"
	RestoreUnable      = "unable"   // the last attempt to prepare it failed; with a phase the next one is under way
	RestoreSwapping    = "swapping" // past the point of no return
)

// Waits says for what a member waits beside the work itself, "" for nothing.
func (r RestoreStatus) Waits() string {
	switch {
	case r.State == RestoreUnconfirmed:
		return fmt.Sprintf("nothing begins before an operator runs `holdfast restore --confirm %s` on a node of the cluster",
			r.ID)
	case r.Left:
		return "has left its generation, and waits for the outcome"
	case r.Leaves:
		return fmt.Sprintf("leaves its generation in %.0f s unless a leader objects", math.Ceil(r.Objecting))
	case r.Objecting > 0:
		return fmt.Sprintf("waits %.0f s more for a leader that objects", math.Ceil(r.Objecting))
	}
	return ""
}

// Text says it in a sentence.
func (r RestoreStatus) Text() string {
	return fmt.Sprintf("a %s as generation %d is under way: %s", r.Title, r.Generation, r.Progress())
}

// Progress is the state with what belongs to it: the error, how far the work is, and for what the member waits.
func (r RestoreStatus) Progress() string {
	text := r.State
	if r.Error != "" {
		text += ": " + r.Error
	}
	if r.State == RestoreUnable && r.Phase != "" {
		text += "; trying again"
	}
	switch {
	case r.Phase != "" && r.Total > 0:
		text += fmt.Sprintf(", %s %d %% of %s", r.Phase, 100*r.Done/r.Total, Bytes(r.Total))
	case r.Phase != "":
		text += ", " + r.Phase
	}
	if w := r.Waits(); w != "" {
		text += "; " + w
	}
	return text
}
