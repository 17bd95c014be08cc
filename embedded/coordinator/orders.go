package coordinator

import (
	"errors"

	"holdfast/embedded/plan"
)

// ErrNotApart: the cluster has not continued without the data of this node.
var ErrNotApart = errors.New("the cluster has not continued without the data of this node")

// Part is an operator's word that the data of this member, which differs from what a majority of all voters has, is
// given up. It is for the caller to have compared them. With dry nothing is done.
func (c *Coordinator) Part(dry bool) error { return c.give(plan.Orders{Differs: true}, dry) }
