package coordinator

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// reload stops the member, for it to be started with the authorities that stand in its files now: the next decision is
// to resume. Where there is a leader, and the members find each other again, it does so under the disruption lock, and
// after handing over. What keeps the member from being stopped gives the lock back; once it is being stopped, the lock
// is kept until it serves again and gives it back ([plan.Unlock]), or until stop.hold is over.
func (t *turn) reload(ctx context.Context, o plan.Observation) error {
	handOver := time.Duration(0)
	if alone := !o.Member.HasLead || o.Severed(); !alone {
		leave, err := t.inTurn(ctx, "reload", t.cfg.Hold, plan.Observation.Unready,
			func(f plan.Facts) bool { return !f.Stale })
		if err != nil {
			return err
		}
		if err := t.step(ctx, o); err != nil {
			leave()
			return err
		}
		handOver = handOverTime // it may lead again by now
	} else if now, _ := t.observer.observe(); !now.Member.Stale || now.Member.HasLead && !now.Severed() {
		return errNotYet
	}
	t.world.Step("before-reload")
	begin := time.Now()
	if err := t.world.Etcd.Stop(ctx, handOver); err != nil {
		return fmt.Errorf("stop etcd to start it with the authorities that it is to trust now: %w", err)
	}
	t.lg.Info("stopped etcd to start it with the authorities that it is to trust now",
		zap.Duration("took", time.Since(begin)))
	t.world.Step("after-reload")
	return nil
}
