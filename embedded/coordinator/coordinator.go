package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// ErrVolumeLost is wrapped by Run when the volume was lost. The process must end: nothing may be written
// any more, and whatever still holds the volume open is gone only with it.
var ErrVolumeLost = errors.New("the volume was lost")

// errNotYet is what an action returns that found nothing to do yet and is no failure: standing by, or a
// learner that is still catching up.
var errNotYet = errors.New("not yet")

const (
	tick     = time.Second      // how often to look again when nothing calls for it
	maxRetry = 5 * time.Second  // longest pause before a failed action is tried again
	maxFetch = time.Minute      // the same for one that reads a whole backup
	early    = 2 * time.Second  // that the gossip has to find the others before a member starts without them
	storeAge = 10 * time.Second // how often the store is asked, and how long it may take to answer
)

// Config is what the coordinator needs to know.
type Config struct {
	Node    string
	Address netip.Addr // of this node, as others reach it
	Plan    plan.Config
	// RevisionBump is restore.revision-bump, ReclaimAfter restore.reclaim-after.
	RevisionBump int64
	ReclaimAfter time.Duration
	// StopWait is stop.wait: how long the end may wait for the disruption lock and the hand-over, 0 for neither. Hold
	// is stop.hold: how long the lock outlives a process that has it.
	StopWait, Hold time.Duration
}

// World is everything outside.
type World struct {
	Volumes Volumes
	Mesh    Mesh
	Names   Names
	Etcd    Etcd
	Store   Store
	Backups Backups
	// Looked is called after each observation, Decided when the decision has changed, Failed when an action
	// has failed. Step is called before each durable step of an action with its name; tests use it to end
	// the process there. Ending is told why the process is about to end by itself.
	Looked  func(Situation)
	Decided func(plan.Action)
	Failed  func(plan.Action, error)
	Step    func(name string)
	Ending  func(why string)
	// Rooms says how much room there is: volume is the path of the held one, "" for none. It never waits for a disk.
	Rooms func(volume string) Rooms
}

// Coordinator runs a node's life.
type Coordinator struct {
	cfg   Config
	world World
	lg    *zap.Logger
	plan  func(plan.Observation) plan.Action // [plan.Next]
	again chan struct{}                      // look again
	asked chan struct{}                      // ask the store again
	moved chan struct{}                      // write the addresses
	lost  chan error                         // why the volume was lost

	nonce string    // of this process, for others to find in the store that they share with it
	began time.Time // set by Run
	begun string    // the start for which room was made; only actions use it

	mu       sync.Mutex // guards everything below
	volume   Volume
	none     string // why no volume could be claimed
	path     string // of the volume
	ledger   ledgerV1
	found    bool // the ledger exists
	broken   string
	admitted map[string]plan.Admission
	store    plan.Store
	orders   plan.Orders
	seen     map[string]decoded
	known    map[string]netip.Addr // slot -> last known address
	named    map[string]netip.Addr // what the resolver was told
	holders  map[string]string     // slot -> node that held it last
	now      Situation
	facts    string // as published
	dead     bool   // the volume was lost: nothing is begun, and nothing written, any more
	adopting bool   // the volume is being adopted or released, or the member drained: nothing is begun
	adopted  uint64 // how often that has begun
	parked   bool   // the volume was released for good
	unfit    unfit
	drained  drained
	stopping bool   // the process was told to end
	ordered  string // what the ledger and the store said when the orders were given

	bugs     map[string]string // what panics at present
	learners learners

	led    time.Time    // when etcd did not run or had a leader, last
	log    *plan.LogEnd // of a member without a leader, as read at logged
	logged time.Time

	restoring restoring
	ending    ending
	house     house
	upkeep    upkeep

	history *history // has a lock of its own
}

// Situation is what a node is doing, for status, metrics and readiness.
type Situation struct {
	Observation plan.Observation
	Action      plan.Action
	Looked      time.Time // when the world was last observed
	Since       time.Time // of this decision
	Busy        bool      // the action is being carried out
	Err         string    // why the last action failed, until one succeeds
	Volume      Identity
	Path        string
	Progress    Progress      // of an action with a backup
	Open        *plan.Restore // that was under way when the store answered last
	// Objecting is how long a leaderless proposal still waits here for a leader that objects, 0 if none does.
	Objecting time.Duration
	Dismissed []string  // commands that were deleted lately, because they could not be carried out
	Unsaved   string    // why no backup could be made before the last change of the cluster
	Aside     []Aside   // on the volume
	Served    time.Time // since when the member has served without a break, zero if it does not
	Conflicts []string  // what contradicts what this node rests on, of generations: it touches nothing
	Bugs      []string  // what panicked when it was asked last
	// Unheard are the nodes whose word does not count here, and why: it is not whole, or of a later version.
	Unheard map[string]string
	Upkeep  health.UpkeepStatus
	// Rooms is the room as observed. Observation.Claim.Short says whether the volume lacks its reserve.
	Rooms Rooms
}

// New makes a coordinator. It does nothing yet.
func New(cfg Config, w World, lg *zap.Logger) *Coordinator {
	return &Coordinator{
		cfg: cfg, world: w, lg: lg, nonce: rand.Text(), plan: plan.Next,
		again:    make(chan struct{}, 1),
		asked:    make(chan struct{}, 1),
		moved:    make(chan struct{}, 1),
		lost:     make(chan error, 1),
		admitted: map[string]plan.Admission{},
		store:    plan.Store{Unknown: plan.Unasked},
		seen:     map[string]decoded{},
		known:    map[string]netip.Addr{},
		holders:  map[string]string{},
		bugs:     map[string]string{},

		ending:    ending{blind: map[string]bool{}},
		restoring: restoring{refused: map[string]refusal{}, heard: map[string]bool{}},

		history: newHistory(lg),
	}
}

// Now returns the latest situation.
func (c *Coordinator) Now() Situation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Look makes the coordinator observe again soon.
func (c *Coordinator) Look() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// Order passes on what an operator has asked for. It is refused while etcd's data is here, because these
// orders are for disks that hold no member, and when there is nothing to give up: an order that lay in wait
// would break a promise that is made later. With dry it only says whether it would be refused.
func (c *Coordinator) Order(orders plan.Orders, dry bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.now.Observation
	l := o.Disk.Ledger
	switch {
	case !o.Claim.Held:
		return errors.New("this node holds no volume, so there is nothing to give up; run the command on the node that holds the slot")
	case o.Disk.WAL:
		return fmt.Errorf("slot %s has etcd data, which this command never gives up; nothing was changed", o.Claim.Slot)
	case orders.Abandon && (l.Promise() == nil || l.Record != nil), orders.New && l.Promise() == nil && l.Record == nil && o.Store.Record == nil:
		return fmt.Errorf("slot %s has nothing to give up; it waits because: %s", o.Claim.Slot, c.now.Action.Text())
	}
	if !dry {
		c.orders, c.ordered = orders, occasion(o)
		c.Look()
	}
	return nil
}

// Run lives the node's life until ctx ends, the volume is lost, or etcd ends for a reason that a restart
// of the process has to cure. It stops etcd and gives up the volume before it returns. When the volume is
// lost it returns at once: whatever still hangs on the dead disk ends only with the process.
func (c *Coordinator) Run(ctx context.Context) error {
	c.began = time.Now()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // also while etcd stops
	defer unwatch()
	var beside sync.WaitGroup
	beside.Go(func() { c.watchStore(inner) })
	go c.guardGeneration(inner) // not waited for, like the beacon: the store may hang
	go c.keepBeacon(inner)
	beside.Go(func() { c.forgetKeys(inner) })
	beside.Go(func() { c.watchNewest(inner) })
	beside.Go(func() { c.keepAddresses(inner) })
	beside.Go(func() { c.keepHouse(inner) })
	beside.Go(func() { c.keepLock(inner) })
	go c.history.run(inner) // not waited for: the disk may hang
	ended := make(chan error, 1)
	go func() {
		err := c.live(inner, watching)
		cancel()
		c.Remember(Entry{Kind: EntryStop, Why: "the process was told to end", Error: text(err)})
		ended <- errors.Join(err, c.leave())
	}()
	select {
	case err := <-c.lost:
		return err
	case err := <-ended:
		beside.Wait()
		return err
	}
}

// leave undoes what the node has taken, in reverse order. The others are told that nothing runs here any
// more, for a leader's word counts as long as it seems to be one.
func (c *Coordinator) leave() error {
	ctx := context.Background() // the caller's has ended; every step below is bounded
	if err := c.world.Etcd.Leave(ctx, c.part(ctx)); err != nil {
		return err
	}
	o, _ := c.observe()
	c.publish(o)
	c.mu.Lock()
	v, dead := c.volume, c.dead
	c.volume = nil
	c.mu.Unlock()
	if v == nil || dead {
		return nil
	}
	c.history.leave()
	return v.Release(ctx, Keep)
}

// live is the loop: observe, decide, act. The volume is watched until watching ends.
func (c *Coordinator) live(ctx, watching context.Context) error {
	var (
		doing   *deed // the action that is being carried out
		watched Volume
		pace    pace
	)
	defer func() {
		if doing != nil {
			<-doing.done
		}
	}()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if doing == nil {
			c.refit()
		}
		alone, since := c.undisturbed()
		o, ended := c.observe()
		if ended != nil {
			return fmt.Errorf("etcd ended by itself: %w", ended)
		}
		c.publish(o)
		c.name(o)
		c.wonder(o)
		c.world.Looked(c.looked(o))
		if v := c.held(); v != nil {
			if r := o.Disk.Ledger.Record; r != nil {
				v.Bear(r.Token())
			}
			if v != watched {
				watched = v
				go c.watch(watching, v)
			}
		}
		switch {
		case doing != nil && c.overtaken(o, doing.action):
			doing.cancel()
		case doing == nil:
			a := c.next(o)
			pace.next(a, c.Now().Action)
			if c.decide(a, alone && a.Kind != plan.Wait && pace.due(), since) {
				doing = c.begin(ctx, o, a)
			}
		}
		var done chan error
		if doing != nil {
			done = doing.done
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-done:
			doing.cancel()
			c.acted(doing, err)
			doing = nil
			pace.did(err)
		case <-c.world.Mesh.Changed():
		case <-c.again:
		case <-ticker.C:
		}
	}
}

// watch waits for the loss of a volume, and then ends everything at once: first nothing new begins, then the evidence is told,
// then etcd is killed, and then Run returns, whatever the others are doing. It ends with the volume's release.
func (c *Coordinator) watch(ctx context.Context, v Volume) {
	err := v.Watch(ctx)
	if err == nil {
		return
	}
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.history.keep("")
	// First of all: what follows may end the process at any moment, and the history lies on the lost volume.
	c.lg.Error("the volume was lost: etcd is killed, and the process ends without touching the volume", zap.Error(err))
	c.world.Ending(fmt.Sprintf("the volume was lost: %v", err))
	c.world.Etcd.Kill()
	c.lost <- fmt.Errorf("%w: %w", ErrVolumeLost, err)
}

func (c *Coordinator) held() Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.volume
}

// looked records an observation of the loop and returns the situation.
func (c *Coordinator) looked(o plan.Observation) Situation {
	var conflicts []string
	c.guard("the look for conflicts", func() { conflicts = o.Conflicts() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Observation, c.now.Looked = o, time.Now()
	c.house.serves(c.now.State())
	c.now.Unsaved, c.now.Aside, c.now.Served = c.restoring.unsaved, c.house.aside, c.house.served
	c.now.Dismissed = c.restoring.told()
	c.now.Objecting = c.ending.remaining()
	c.now.Open, c.now.Upkeep = c.restoring.open, c.upkeep.status()
	c.now.Conflicts = conflicts
	c.now.Bugs, c.now.Unheard = c.faults(), unheard(o)
	c.history.keep(c.housed())
	return c.now
}

// undisturbed reports whether no operator's step on the volume is under way, and how many there have been. What was observed
// beside one may be half of it, and is not acted on, even if the step is over by then.
func (c *Coordinator) undisturbed() (alone bool, since uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.adopting, c.adopted
}

// disturb begins such a step. The caller holds the lock.
func (c *Coordinator) disturb() { c.adopting, c.adopted = true, c.adopted+1 }

// decide records the decision, says so when it is a new one, and reports whether it is to be carried out: if nothing has disturbed it
// since it was observed.
func (c *Coordinator) decide(a plan.Action, act bool, since uint64) bool {
	c.mu.Lock()
	changed := c.now.Action.Kind != a.Kind || c.now.Action.Text() != a.Text()
	act = act && !c.dead && !c.adopting && c.adopted == since
	c.now.Action, c.now.Busy = a, act
	if changed {
		c.now.Since = time.Now()
	}
	if a.Kind == plan.Wait {
		c.now.Err = ""
	}
	c.mu.Unlock()
	if changed {
		c.lg.Info("decided", zap.String("action", string(a.Kind)), zap.String("why", a.Text()))
		c.world.Decided(a)
	}
	switch {
	case a.Kind == plan.Wait && changed:
		c.Remember(Entry{Kind: string(a.Kind), Why: a.Text()})
	case act && changed:
		c.Remember(Entry{Kind: string(a.Kind), Why: a.Text(), Outcome: Begun})
	}
	return act
}

// text is what an error says, "" without one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
