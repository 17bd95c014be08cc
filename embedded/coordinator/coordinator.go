package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// ErrVolumeLost is wrapped by Run if the volume was lost. The process must end: nothing may be written any more, and
// only the end of the process releases what still has the volume open.
var ErrVolumeLost = errors.New("the volume was lost")

// ErrHangs is wrapped by Run if something has not ended in time, most likely because a disk hangs. The member may still
// run, and the volume may stay claimed. The process must end, as after a kill.
var ErrHangs = errors.New("the process ends all the same: check the volume's disk")

// errNotYet is returned by an action that has not failed but could not do anything yet: standing by, or a learner that
// is still catching up.
var errNotYet = errors.New("not yet")

// errOvertaken is returned by an action that was no longer the one to do.
var errOvertaken = fmt.Errorf("%w: something else is due", errNotYet)

// delay is an errNotYet with a reason, for the status.
type delay string

func (d delay) Error() string { return string(d) }
func (d delay) Unwrap() error { return errNotYet }

const (
	tick     = time.Second      // how often to look again if nothing changes
	maxRetry = 5 * time.Second  // longest pause before a failed action is tried again
	maxFetch = time.Minute      // the same for an action that reads a whole backup
	early    = 2 * time.Second  // how long the gossip may take to find the others before a member starts without them
	settle   = time.Second      // how long slot claims must be unchanged before a host with any slot promises or joins
	storeAge = 10 * time.Second // how often the store is asked, and how long it may take to answer
	endTime  = 20 * time.Second // how long Run may take to end, beyond StopWait: etcd's stop takes up to 15 s
)

// Config is the coordinator's configuration.
type Config struct {
	Node    string
	Address netip.Addr // of this node, as others reach it
	Plan    plan.Config
	// Unset: nobody set the wanted slots. They are the default, until a cluster is known, whose slots are wanted then.
	Unset bool
	// RevisionBump is restore.revision-bump, ReclaimAfter restore.reclaim-after.
	RevisionBump int64
	ReclaimAfter time.Duration
	// StopWait is stop.wait: how long a stop may wait for the disruption lock and the hand-over, 0 for neither. Hold is
	// stop.hold: how long the lock outlives the process that has it.
	StopWait, Hold time.Duration
	// EarlyCampaign is etcd.early-campaign.
	EarlyCampaign bool
}

// World is everything outside of the coordinator.
type World struct {
	Volumes Volumes
	Mesh    Mesh
	Names   Names
	// Elders returns, by slot, the addresses of members of an adopted cluster that holdfast does not run. They come from
	// the operator, else from the cloud, as last known.
	Elders  func() map[string][]netip.Addr
	Etcd    Etcd
	Store   Store
	Backups Backups
	// Looked is called after each observation, Decided when the decision has changed, Failed when an action has failed.
	// Step is called with the name of each durable step of an action; tests use it to end the process there. Ending is
	// called with the reason before the process ends on its own.
	Looked  func(Situation)
	Decided func(plan.Action)
	Failed  func(plan.Action, error)
	Step    func(name string)
	Ending  func(why string)
	// Campaigned is called after the member has started an election early.
	Campaigned func(plan.Reason)
	// Rooms returns the free space. volume is the path of the held volume, "" for none. It never waits for a disk.
	Rooms func(volume string) Rooms
	// Database asks a node for the size of its database in bytes; 0: it is not known.
	Database func(ctx context.Context, node string) int64
}

// env is what New gives to every part of the coordinator. It is constant, except for the wanted slots in cfg, which the
// observer guards.
type env struct {
	cfg   *Config
	world *World
	lg    *zap.Logger
	again chan struct{} // look again
}

// look makes the loop observe again soon.
func (e env) look() { wake(e.again) }

// wake signals a channel that has room for one value, without blocking.
func wake(waits chan<- struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

// Coordinator runs a node's life. Other packages ask it and give it orders; its parts do the work: see the package
// comment.
type Coordinator struct {
	env
	history     *history
	holding     *holding
	status      *status
	names       *names
	generations *generations
	asides      *asides
	upkeep      *upkeep
	newest      *newest
	observer    *observer
	announcer   *announcer
	sentinel    *sentinel
	campaigner  *campaigner
	turn        *turn
	loop        *loop
}

// Situation is what a node is doing, for status, metrics and readiness. It has many fields because it is all that other
// packages see of the node at one moment.
type Situation struct {
	Observation plan.Observation
	Action      plan.Action
	Looked      time.Time // when the world was last observed
	Since       time.Time // when this decision was made
	Busy        bool      // the action is being carried out
	Err         string    // why the last action failed, until one succeeds
	Outside     bool      // Err says nothing about the volume
	Delay       string    // why Action could not begin at the last attempt
	Volume      plan.Volume
	Progress    Progress      // of an action that reads or writes a backup
	Open        *plan.Restore // the proposal that was open when the store last answered
	// Objecting is how much longer a leaderless proposal waits here for a leader's objection, 0 if none waits.
	Objecting time.Duration
	Dismissed []string     // commands that were deleted lately, because they could not be carried out
	Unsaved   string       // why no backup could be made before the last change of the cluster
	Aside     []plan.Aside // on the volume
	// Served is how long the member has served without a break, by no clock that is set; 0 if it does not serve.
	Served    time.Duration
	Conflicts []string // what contradicts this node's generation; nothing is touched because of it
	Bugs      []string // what panicked at the last call
	Upkeep    health.UpkeepStatus
	// LeaderSilence is the longest of a leader that came back ([plan.Silences]).
	LeaderSilence time.Duration
	// Rooms is the free space, as observed. Observation.Claim.Short: the volume lacks its reserve.
	Rooms Rooms
}

// New makes a coordinator. It starts nothing.
func New(cfg Config, w World, lg *zap.Logger) *Coordinator {
	env := env{&cfg, &w, lg, make(chan struct{}, 1)}

	// What is known, each with a lock of its own.
	history, peers := newHistory(lg, cfg.Node), peers{w.Mesh}
	bugs := &bugs{lg: lg, history: history, shown: map[string]string{}}
	names, generations := newNames(env, bugs), newGenerations(env)
	asides, upkeep, learners, saver := &asides{env: env}, new(upkeep), new(learners), &saver{env: env}
	restoring := &restoring{refused: map[string]refusal{}}
	holding := &holding{env: env, history: history, names: names}
	status := &status{holding: holding, generations: generations, restoring: restoring, asides: asides, upkeep: upkeep,
		saver: saver, bugs: bugs}

	// What observes, and what decides.
	data := &dataDir{env: env, holding: holding, status: status}
	newest := &newest{env: env, holding: holding, data: data}
	observer := &observer{env: env, holding: holding, status: status, names: names, generations: generations, data: data,
		newest: newest, restoring: restoring, upkeep: upkeep, learners: learners, seen: map[string]decoded{}}
	decider := &decider{env: env, bugs: bugs, observer: observer, plan: plan.Next}

	// What acts.
	announcer := &announcer{env: env, bugs: bugs}
	sentinel := &sentinel{env: env, history: history, bugs: bugs, status: status, observer: observer,
		generations: generations}
	campaigner := &campaigner{env: env, history: history, holding: holding, bugs: bugs, status: status,
		observer: observer}
	turn := &turn{env: env, holding: holding, observer: observer, announcer: announcer, upkeep: upkeep, peers: peers}
	members := &members{env: env, holding: holding, decider: decider, peers: peers, saver: saver, learners: learners}
	restorer := &restorer{env: env, holding: holding, status: status, observer: observer, generations: generations,
		restoring: restoring, saver: saver, sentinel: sentinel, peers: peers}
	contest := &contest{env: env, observer: observer, announcer: announcer, peers: peers}
	actor := &actor{env: env, holding: holding, observer: observer, generations: generations, decider: decider,
		peers: peers, members: members, restorer: restorer, turn: turn, names: names, contest: contest}
	loop := &loop{env: env, history: history, holding: holding, status: status, names: names, generations: generations,
		observer: observer, announcer: announcer, decider: decider, actor: actor, turn: turn, lost: make(chan error, 1)}
	return &Coordinator{env: env, history: history, holding: holding, status: status, names: names,
		generations: generations, asides: asides, upkeep: upkeep, newest: newest, observer: observer,
		announcer: announcer, sentinel: sentinel, campaigner: campaigner, turn: turn, loop: loop}
}

// Now returns the latest situation.
func (c *Coordinator) Now() Situation { return c.status.get() }

// Look makes the coordinator observe again soon.
func (c *Coordinator) Look() { c.look() }

// AskStore makes the sentinel ask the store at once instead of within ten seconds.
func (c *Coordinator) AskStore() { c.generations.ask() }

// Run lives the node's life until ctx ends, the volume is lost, or etcd ends for a reason that only a restart of the
// process cures. It stops etcd and releases the volume before it returns. If the volume is lost, it returns at once:
// what hangs on the dead disk ends only with the process. If ctx has a cause other than [context.Canceled], the process
// ends by itself, and the history shows the cause.
func (c *Coordinator) Run(ctx context.Context) error {
	c.observer.begin()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // also while etcd stops
	defer unwatch()
	var beside sync.WaitGroup
	beside.Go(func() { c.sentinel.watch(inner) })
	go c.sentinel.guard(inner) // not waited for, like the next two: the store may hang
	go c.sentinel.show(inner)
	go c.newest.watch(inner)
	beside.Go(func() { c.sentinel.forgetKeys(inner) })
	beside.Go(func() { c.names.keep(inner, c.holding) })
	beside.Go(func() { c.asides.collect(inner, c.holding) })
	beside.Go(func() { c.turn.keepLock(inner) })
	if c.cfg.EarlyCampaign {
		beside.Go(func() { c.campaigner.run(inner) })
	}
	go c.history.run(inner) // not waited for: the disk may hang
	ended := make(chan error, 1)
	c.loop.at("the last look at this node")
	go func() {
		doing, err := c.loop.live(inner, watching)
		cancel()
		c.history.remember(lastEntry(err, context.Cause(ctx)))
		if err = errors.Join(err, c.loop.leave(doing)); err == nil {
			c.loop.at("what runs beside the member")
			beside.Wait() // else it may hang as well, and the error would not be seen
		}
		ended <- err
	}()
	late := make(chan struct{})
	limit := c.cfg.StopWait + endTime
	stop := context.AfterFunc(inner, func() { time.AfterFunc(limit, func() { close(late) }) })
	defer stop()
	select {
	case err := <-c.loop.lost:
		return err
	case err := <-ended:
		return err
	case <-late:
		return fmt.Errorf("%s has not ended within %s: %w", *c.loop.ending.Load(), limit, ErrHangs)
	}
}

// lastEntry returns the history's last entry of a process: err is how its life ended, cause why its context did.
func lastEntry(err, cause error) Entry {
	if errors.Is(cause, context.Canceled) {
		cause = nil
	}
	if err = errors.Join(err, cause); err == nil {
		return Entry{Kind: EntryStop, Why: "the process was told to stop"}
	}
	return Entry{Kind: EntryStop, Why: "the process cannot continue", Outcome: Failed, Error: err.Error()}
}

// text is an error's message, "" without an error. It lacks the ID that AWS gives each request: with it, an error that
// lasts would be news at each attempt. IDs that are shorter than any of AWS may be a part of something else.
func text(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	answer, ok := errors.AsType[interface {
		error
		ServiceRequestID() string
	}](err)
	if ok && len(answer.ServiceRequestID()) > 8 {
		text = strings.ReplaceAll(text, answer.ServiceRequestID(), "…")
	}
	return text
}
