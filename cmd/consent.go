package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// A cluster that serves ends only through its own leader (R16). This file is how a command finds out whether it serves, also from
// a machine that only shares its store, and how an operator confirms on one of its nodes that it shall end.

const (
	// beaconFresh is how old, by the store's own time, the beacon of a dead leader is at least; beaconWatch is how long a younger
	// one is watched for a change.
	beaconFresh = 5 * coordinator.BeaconEvery / 2
	beaconWatch = coordinator.BeaconEvery + 2*time.Second
	// electionWatch is how long a majority that runs is given to elect a leader before it is said to have none: some elections.
	electionWatch = 5 * time.Second
)

// living is the leader of the cluster as a command sees it.
type living struct {
	plan.Stand
	from   string // how it is known
	beacon bool   // the nodes here do not see it
}

// leads returns the leader that the nodes here show, nil if they show none or none answers.
func (r *restoration) leads() *plan.Stand {
	if r.cluster == nil {
		return nil
	}
	for _, n := range r.cluster.Nodes {
		if n.Reached && n.State == "leader" && n.Etcd != nil && n.Volume != nil {
			return &plan.Stand{Node: n.Node, Slot: n.Volume.Slot, Disk: n.Volume.Disk, Address: n.Address, Revision: n.Etcd.Revision, Leader: true}
		}
	}
	return nil
}

// lives tells a living cluster from a dead one: by its nodes, if one answers here, else by the beacon that its leader writes into
// the store. nil: it has no leader, as far as can be seen.
func (r *restoration) lives(ctx context.Context) (*living, error) {
	at := r.leads()
	if at == nil && r.couldElect() {
		r.say("a majority runs and shows no leader: waiting %s at most for an election", electionWatch)
		var err error
		if at, err = r.sees(ctx, electionWatch); err != nil {
			return nil, err
		}
	}
	if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	b, age, err := r.records.Beacon(ctx, "a command of "+operator())
	if err != nil || b == nil || age > beaconFresh || slices.Contains(r.flags.overrule, b.Disk) {
		return nil, err
	}
	r.say("%s ago a leader wrote into the store that it lives: %s. Waiting %s at most to see it, or whether it does so again", age.Round(time.Second), b.Stand, beaconWatch)
	if at, err = r.sees(ctx, beaconWatch); err != nil {
		return nil, err
	} else if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	again, _, err := r.records.Beacon(ctx, "a command of "+operator())
	if err != nil || again == nil || again.At.Equal(b.At) {
		return nil, err
	}
	return &living{again.Stand, "the beacon in the store, which changes", true}, nil
}

// sees waits for the nodes here to show a leader: after an election, or when they have found each other.
func (r *restoration) sees(ctx context.Context, atMost time.Duration) (*plan.Stand, error) {
	const again = 500 * time.Millisecond
	for end := time.Now().Add(atMost); time.Now().Before(end); {
		if err := rest(ctx, again); err != nil {
			return nil, err
		}
		if s := r.ask(ctx); s != nil {
			r.cluster = s
		}
		if at := r.leads(); at != nil {
			return at, nil
		}
	}
	return nil, nil
}

// couldElect reports whether a majority of the slots has members that run, as the nodes here show it.
func (r *restoration) couldElect() bool {
	if r.cluster == nil || r.cluster.Record == nil {
		return false
	}
	slots, runs := r.cluster.Slots(), map[string]bool{}
	for _, n := range r.cluster.Nodes {
		if n.Live && n.Etcd != nil && n.Volume != nil && slices.Contains(slots, n.Volume.Slot) {
			runs[n.Volume.Slot] = true
		}
	}
	return len(runs) > len(slots)/2
}

// rest lets time pass.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted; nothing was changed")
	case <-time.After(d):
		return nil
	}
}

func (r *restoration) say(format string, args ...any) {
	fmt.Fprintf(r.c.ErrOrStderr(), format+"\n", args...)
}

// propose puts a proposal into the store, and has the cluster consent to it where it lives and a node can be told.
func (r *restoration) propose(ctx context.Context, p plan.Restore) error {
	if err := r.records.Propose(ctx, p); errors.Is(err, plan.ErrConflict) {
		return fmt.Errorf("another one came first; this %s was not proposed: %w", p.Title(), err)
	} else if err != nil {
		return fmt.Errorf("propose the %s: %w; whether it was proposed is not known: see `holdfast status`, and `holdfast restore --abort`", p.Title(), err)
	}
	r.say("proposal %s: attempt %d to begin generation %d", p.ID, p.Attempt, p.Generation)
	if p.Led == nil {
		r.say("%s. No leader was seen: each voter waits %s for one that objects, and leaves; only then can the next generation serve. --abort ends it until then",
			preparing(p), coordinator.LeaderWait)
		return nil
	}
	switch err := r.consent(ctx, p.ID); {
	case err == nil:
		r.consented(p)
	case errors.Is(err, control.ErrUnreachable):
		r.say("%s leads the cluster, which continues until an operator confirms that it ends. Run on one of its nodes:\n\n  holdfast restore --confirm %s\n\n"+
			"(Or run that here, with an operator's certificate and --control.remote.address: see `holdfast tls client`.)\n"+
			"Waiting for that, for %s at most; Ctrl-C or --abort withdraws the proposal", p.Led, p.ID, config.FormatDuration(r.flags.timeout))
	default:
		return r.withdraw(ctx, p, fmt.Errorf("%s leads the cluster, which did not consent: %w", p.Led, err))
	}
	return nil
}

func (r *restoration) consented(p plan.Restore) {
	r.say("the cluster consents: %s; --abort ends it until the point of no return", preparing(p))
}

// withdraw aborts what was proposed and the cluster would not consent to.
func (r *restoration) withdraw(ctx context.Context, p plan.Restore, why error) error {
	if _, err := r.records.Abort(ctx, p, plan.Abort{ID: p.ID, Why: "the cluster did not consent"}); err != nil {
		return fmt.Errorf("%w; and the proposal could not be withdrawn: %w", why, err)
	}
	return fmt.Errorf("%w; the proposal was withdrawn, nothing was changed", why)
}

// consent has the node that the command talks to confirm a proposal.
func (r *restoration) consent(ctx context.Context, id string) error {
	path := "/consent?" + url.Values{"proposal": {id}, "by": {operator()}}.Encode()
	return r.node.Get(ctx, http.MethodPost, path, &plan.Restore{})
}

// confirmOpen confirms, on a node of the cluster, what was proposed elsewhere.
func (r *restoration) confirmOpen(ctx context.Context, id string) error {
	_, known, err := r.knows(ctx)
	if err != nil {
		return err
	}
	p := known.Restore
	switch {
	case p == nil:
		return fmt.Errorf("no restore of cluster %s is proposed; the store knows it as %s", r.b.cfg.Cluster.Name, known.Record.Token())
	case id != "" && p.ID != id:
		return fmt.Errorf("the open proposal is %s, the %s by %s, and not %s; nothing was changed", p.ID, p.Title(), p.By, id)
	case p.Led == nil:
		return fmt.Errorf("the %s by %s says that the cluster has no leader: it is not confirmed by anyone, and a leader aborts it", p.Title(), p.By)
	}
	if r.cluster = r.ask(ctx); r.cluster == nil {
		return fmt.Errorf("%w on %s; confirm it on a node of the cluster", control.ErrUnreachable, r.node.At)
	}
	r.say("proposal %s: %s, as generation %d, by %s, who was shown that %s leads", p.ID, p.Title(), p.Generation, p.By, p.Led)
	if r.flags.dryRun {
		return nothingChanged(r.c, "would confirm that the cluster ends with that")
	}
	if !r.flags.yes {
		if err := confirm(ctx, r.c, fmt.Sprintf("End generation %d and continue with %s?", known.Record.Generation, p.Source())); err != nil {
			return err
		}
	}
	if err := r.consent(ctx, p.ID); err != nil {
		return fmt.Errorf("confirm the %s: %w; the proposal is still open: try again, or `holdfast restore --abort`", p.Title(), err)
	}
	r.consented(*p)
	f := r.follower(*p)
	f.theirs = true
	return f.follow(ctx)
}

// objected says who objected to a proposal, and the way on.
func (f *follower) objected(a plan.Abort) error {
	if a.By == nil {
		return fmt.Errorf("the %s was aborted: %s; the cluster continues as it was", f.p.Title(), a.Why)
	}
	way := "if it is to be restored all the same, run the command again without --lost, and confirm it on that node"
	if f.p.Survivor != "" {
		way = "a recovery is not needed: see `holdfast status` there"
	}
	if !a.By.Leader {
		all := append(slices.Clone(f.p.Overruled), a.By.Disk)
		way = fmt.Sprintf("bring the other members back, or leave slot %s out of --lost; to continue without it all the same, stop that node, or say --overrule %s", a.By.Slot, strings.Join(all, ","))
	}
	return fmt.Errorf("%s objected: %s; the %s was aborted, and nothing was changed; %s", a.By, a.Why, f.p.Title(), way)
}
