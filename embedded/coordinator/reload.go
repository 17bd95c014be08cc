package coordinator

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// reload stops the member so that it is started with the authorities that are in its files now: the next decision is to
// resume. If there is a leader, and the members will find each other again, it takes the disruption lock and hands over
// first. If the member cannot be stopped yet, the lock is returned. Once the member is being stopped, the lock is kept
// until it serves again and returns it ([plan.Unlock]), or until stop.hold is over.
func (t *turn) reload(ctx context.Context, o plan.Observation) error {
	handOver := time.Duration(0)
	if alone := !o.Member.HasLead || o.Severed(); !alone {
		release, err := t.inTurn(ctx, "reload", t.cfg.Hold, plan.Observation.Unready,
			func(f plan.Facts) bool { return !f.Stale })
		if err != nil {
			return err
		}
		if err := t.stepDown(ctx, o); err != nil {
			release()
			return err
		}
		handOver = handOverTime // it may lead again by now
	} else if now, _ := t.observer.observe(); !now.Member.Stale || now.Member.HasLead && !now.Severed() {
		return errNotYet
	}
	t.world.Step("before-reload")
	begin := time.Now()
	if err := t.world.Etcd.Stop(ctx, handOver); err != nil {
		return fmt.Errorf("stop etcd to restart it with its new authorities: %w", err)
	}
	t.lg.Info("stopped etcd to restart it with its new authorities",
		zap.Duration("took", time.Since(begin)))
	t.world.Step("after-reload")
	return nil
}
