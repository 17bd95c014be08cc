package proposal

import (
	"time"
)

// dropped is for how long a node may not be at a recovery that it was ordered to do: longer than it takes to look at
// the world.
const dropped = 5 * time.Second
