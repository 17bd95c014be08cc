package proposal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdfast/cmd/show"
	"holdfast/embedded/plan"
)

// Instead proposes to continue from the data of this node.
func (o Operator) Instead(ctx context.Context) error {
	c := o.cluster()
	v := c.ask(ctx)
	if v.silent() {
		return errors.New("the node on this machine does not answer")
	}
	// A node that has just come back may not have found the leader of the current generation yet.
	alive, err := c.lives(ctx, &v)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the present generation has a leader: %w; nothing was changed", err)
	case alive != nil && alive.beacon:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s), and this node does not see it, so nobody "+
			"could confirm that it ends; bring them together and try again; "+
			"if that is not this cluster, say --overrule %s; nothing was changed", alive.Stand, alive.from, alive.Disk)
	}
	var led *plan.Stand
	if alive != nil {
		led = &alive.Stand
	}
	query := url.Values{"lost": {strings.Join(o.Lost, ",")}, "revision": {strconv.FormatInt(v.revision(), 10)},
		"led": {strconv.FormatBool(led != nil)}}
	var p plan.Restore
	if err := c.Node.Get(ctx, http.MethodGet, "/rejoin?"+query.Encode(), &p); err != nil {
		return err
	}
	p.Led = led
	o.fill(&p)
	o.say("generation %d would continue from the data of slot %s here, at revision %d or later; what generation %d has "+
		"written is set aside on its disks",
		p.Generation, p.Survivor, p.Revision+p.Bump, p.Generation-1)
	if o.DryRun {
		return show.NothingChanged(o.Out, "would propose that")
	}
	if err := o.confirm(ctx, fmt.Sprintf("End generation %d?", p.Generation-1)); err != nil {
		return err
	}
	return c.carryOut(ctx, p, v)
}
