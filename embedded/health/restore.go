package health

import (
	"fmt"
	"math"
)

// RestoreStatus is how far a node is with a restore or a recovery in progress.
type RestoreStatus struct {
	ID         string `json:"id"`               // of the proposal
	Title      string `json:"title"`            // "restore of …" or "recovery from …"
	Backup     string `json:"backup,omitempty"` // only of a restore
	Generation uint64 `json:"generation"`
	Attempt    int    `json:"attempt"`
	By         string `json:"by"`
	State      string `json:"state"`           // one of the states of a restore
	Phase      string `json:"phase,omitempty"` // while preparing
	Done       int64  `json:"done,omitempty"`  // bytes of the database, out of Total
	Total      int64  `json:"total,omitempty"`
	Error      string `json:"error,omitempty"` // why the last attempt to prepare failed
	// Objecting is for how many more seconds this node waits for a leader that objects to a leaderless proposal. With
	// Leaves, its member then stops for good.
	Objecting float64 `json:"objecting,omitempty"`
	Leaves    bool    `json:"leaves,omitempty"`
	Left      bool    `json:"left,omitempty"` // its member has left the generation for the proposal
}

// These are the states of a restore or a recovery on one node.
const (
	RestoreUnconfirmed = "unconfirmed" // nothing begins before an operator confirms it on a node of the cluster
	RestoreWaiting     = "waiting"     // nothing has begun here
	RestorePreparing   = "preparing"
	RestorePrepared    = "prepared"
	RestoreUnable      = "unable"   // the last attempt to prepare failed; with a phase, the next one is in progress
	RestoreSwapping    = "swapping" // past the point of no return
)

// Waits says what a member waits for apart from the work itself, "" for nothing.
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

// Text describes the restore in one sentence.
func (r RestoreStatus) Text() string {
	return fmt.Sprintf("a %s as generation %d is under way: %s", r.Title, r.Generation, r.Progress())
}

// Progress returns the state with its details: the error, how far the work is, and what the member waits for.
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
