package proposal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// Recover proposes to continue from a survivor: the named one, or the most advanced. Without Yes it only shows what
// would be done. It returns an error if the cluster has a quorum.
func (o Operator) Recover(ctx context.Context, survivor, despite string) error {
	c := o.cluster()
	var s recovery
	path := "/recover?" + url.Values{"lost": {strings.Join(o.Lost, ",")}, "survivor": {survivor}}.Encode()
	if err := c.Node.Get(ctx, http.MethodGet, path, &s); err != nil {
		return err
	}
	v := c.ask(ctx)
	if v.silent() {
		return errors.New("the node on this machine does not answer")
	}
	s.despite = despite
	s.complete(v)
	s.weigh(ctx, o.Backups.Store)
	if s.Obstacle != "" {
		return fmt.Errorf("%s; nothing was changed", s.Obstacle)
	}
	act := o.Yes && !o.DryRun
	if !o.JSON {
		fmt.Fprint(o.Out, s.text(survivor, act))
	} else if !act {
		if err := show.JSON(o.Out, s); err != nil {
			return err
		}
	}
	undeclared := s.Able && len(o.Lost) == 0
	switch {
	case s.Refusal != "" && (act || !undeclared):
		return fmt.Errorf("%s; nothing was changed", s.Refusal)
	case s.poorer(survivor) != nil:
		return s.poorer(survivor)
	case !act:
		return nil
	}
	id, known, err := c.mirrored(ctx)
	if err != nil {
		return err
	}
	if p := known.Restore; p != nil {
		return underWay(*p)
	}
	if err := errors.Join(v.shared(id), v.settled(*known.Record)); err != nil {
		return err
	}
	if s.Record == nil || known.Record.ID != s.Record.ID {
		return fmt.Errorf("the store knows the cluster as %s, and the node here as another generation: see `holdfast "+
			"status`; nothing was changed", known.Record.Token())
	}
	q := plan.Request{By: o.Name, Lost: o.Lost, Survivor: s.Chosen.Slot, Disk: s.Chosen.Disk, Log: s.Chosen.Log}
	p := coordinator.NewRecovery(*known.Record, known.Attempts, q, s.Revisions[s.Chosen.Slot], s.raised(o.Bump))
	p.PeerURL = plan.SecureURL(*known.Record, o.Config.Etcd.PeerURL)
	o.fill(&p)
	alive, err := c.lives(ctx, &v)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the cluster lives elsewhere: %w; nothing was changed", err)
	case alive != nil:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s); a recovery is not needed, and nothing was "+
			"changed; if that is not this cluster, say --overrule %s", alive.Stand, alive.from, alive.Disk)
	}
	return c.carryOut(ctx, p, v)
}
