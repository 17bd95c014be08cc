package node

import (
	"context"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/volume/ebs"
)

// noticeEvery is how often a node asks what is planned for its instance, as AWS advises.
const noticeEvery = 5 * time.Second

// noticeGrace is how long a node that must go waits for its turn: as long as another member that goes may need until a
// standby serves in its place. A Spot instance goes noticeLast before its end in any case.
const (
	noticeGrace = 30 * time.Second
	noticeLast  = time.Minute
)

// notices gives the volume back before its instance goes, so that another node can take the slot at once. EC2 itself
// detaches it only when the instance has terminated, and never where it is stopped.
type notices struct {
	planned  func(context.Context) ebs.Lifecycle
	holds    func() bool
	standby  func() bool // another node is here that holds no volume
	handBack func(ctx context.Context, why string, must bool) (id coordinator.Identity, dropped bool, err error)
	lg       *zap.Logger

	since  time.Time // since when the instance is to go
	heeded time.Time // the rebalance recommendation for which the volume was given back
	said   string    // why it was not
}
