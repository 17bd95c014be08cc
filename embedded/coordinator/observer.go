package coordinator

import (
	"holdfast/embedded/plan"
)

// decoded is the facts of a node, kept so that they are parsed once.
type decoded struct {
	stamp  [2]uint64
	facts  *plan.Facts
	unread string // why there are none
}
