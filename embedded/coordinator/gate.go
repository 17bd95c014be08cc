package coordinator

// gate keeps actions and an operator's orders about the volume apart.
type gate struct {
	dead   bool   // the volume was lost: nothing begins, and nothing is written, any more
	busy   bool   // an action is being carried out
	closed bool   // the volume's content is being set aside, the volume released, or the member drained: nothing begins
	orders uint64 // how often it was closed
}
