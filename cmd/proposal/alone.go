package proposal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/plan"
)

// Alone orders a recovery on this node when both the majority and the store are lost, and follows it.
func (o Operator) Alone(ctx context.Context) error {
	c := o.cluster()
	query := url.Values{"lost": {strings.Join(o.Lost, ",")}, "by": {o.Name},
		"dry": {strconv.FormatBool(!o.Yes || o.DryRun)}}
	var p plan.Restore
	if err := c.Node.Get(ctx, http.MethodPost, "/recover/alone?"+query.Encode(), &p); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	o.say("the store does not answer: nobody but this node sees the recovery, so every other voter (%s) must be "+
		"gone for good", strings.Join(o.Lost, ", "))
	if !o.Yes || o.DryRun {
		return show.NothingChanged(o.Out, fmt.Sprintf("would continue from slot %s, as generation %d; to do it, say --yes",
			p.Survivor, p.Generation))
	}
	f := newFollower(proposal{p, c}, view{})
	bound, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	at := time.Now() // when the node was last seen working on it
	for {
		select {
		case <-bound.Done():
			return errors.New("the recovery is not done yet; the node continues with it unless it is restarted: see " +
				"`holdfast status`")
		case <-time.After(followNode):
		}
		if done, err := f.watch(bound); done || err != nil {
			return err
		}
		switch {
		case f.record != nil || f.under():
			at = time.Now()
		case time.Since(at) > dropped:
			return errors.New("the node has dropped the recovery, most likely because the backup store answers again; nothing " +
				"was changed: run `holdfast recover` without --without-store")
		}
	}
}

// dropped is how long a node may show nothing of the recovery before it counts as dropped: longer than the node takes
// to observe and decide.
const dropped = 5 * time.Second
