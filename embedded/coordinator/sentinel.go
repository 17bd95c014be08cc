package coordinator

import (
	"holdfast/embedded/plan"
)

// Beacon is where the leader of a generation stood when it wrote into the store last.
type Beacon struct {
	Record     string `json:"record"`
	Generation uint64 `json:"generation"`
	plan.Stand
}
