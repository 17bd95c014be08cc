package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

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
	early    = 2 * time.Second  // that the gossip has to find the others before a member starts without them
	storeAge = 10 * time.Second // how often the store is asked, and how long it may take to answer
)

// Config is what the coordinator needs to know.
type Config struct {
	Node        string
	Address     netip.Addr // of this node, as others reach it
	Plan        plan.Config
	EtcdVersion string
}

// World is everything outside.
type World struct {
	Volumes Volumes
	Mesh    Mesh
	Names   Names
	Etcd    Etcd
	Store   Store
	// Looked is called after each observation. Decided is called when the decision has changed, Failed when an action has failed. Step is called
	// before each durable step of an action with its name; tests use it to end the process there.
	Looked  func(Situation)
	Decided func(plan.Action)
	Failed  func(plan.Action, error)
	Step    func(name string)
}

// Coordinator runs a node's life.
type Coordinator struct {
	cfg   Config
	world World
	lg    *zap.Logger
	again chan struct{} // look again
	asked chan struct{} // ask the store again

	began time.Time // set by Run

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
	now      Situation
	facts    string // as published
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
}

// New makes a coordinator. It does nothing yet.
func New(cfg Config, w World, lg *zap.Logger) *Coordinator {
	return &Coordinator{
		cfg: cfg, world: w, lg: lg,
		again:    make(chan struct{}, 1),
		asked:    make(chan struct{}, 1),
		admitted: map[string]plan.Admission{},
		store:    plan.Store{Unknown: "it has not been asked yet"},
		seen:     map[string]decoded{},
		known:    map[string]netip.Addr{},
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

// Order passes on what an operator has asked for. It is refused while etcd runs here: these orders are
// for disks that hold no member.
func (c *Coordinator) Order(o plan.Orders) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now.Observation
	switch {
	case !now.Claim.Held:
		return errors.New("this node holds no volume, so there is nothing to give up; run the command on the node that holds the slot")
	case now.Disk.WAL:
		return fmt.Errorf("slot %s has etcd data, which this command never gives up; nothing was changed", now.Claim.Slot)
	}
	c.orders = o
	c.Look()
	return nil
}

// Run lives the node's life until ctx ends, the volume is lost, or etcd ends for a reason that a restart
// of the process has to cure. It stops etcd and gives up the volume before it returns.
func (c *Coordinator) Run(ctx context.Context) error {
	c.began = time.Now()
	inner, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { c.watchStore(inner) })
	err := c.live(inner)
	cancel()
	wg.Wait()
	return errors.Join(err, c.leave(err))
}

// leave undoes what the node has taken, in reverse order.
func (c *Coordinator) leave(cause error) error {
	if errors.Is(cause, ErrVolumeLost) {
		return nil // etcd was killed; the volume must not be touched
	}
	ctx := context.Background() // the caller's has ended; every step below is bounded
	err := c.world.Etcd.Stop(ctx)
	c.mu.Lock()
	v := c.volume
	c.volume = nil
	c.mu.Unlock()
	if v != nil && err == nil {
		err = v.Release(ctx, Keep)
	}
	return err
}

// live is the loop: observe, decide, act.
func (c *Coordinator) live(ctx context.Context) (err error) {
	var (
		acting  chan error // of the action that is being carried out
		lost    = make(chan error, 1)
		watched Volume
		retry   time.Time
		pause   = tick
		// repeated says that the action is the one that was done before
		repeated bool
		wg       sync.WaitGroup
	)
	defer func() {
		if !errors.Is(err, ErrVolumeLost) { // else an action may hang on the dead disk for ever
			wg.Wait()
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		o, ended := c.observe()
		if ended != nil {
			select {
			case err := <-lost:
				return err
			default:
				return fmt.Errorf("etcd ended by itself: %w", ended)
			}
		}
		c.publish(o)
		c.name(o)
		c.world.Looked(c.Now())
		if v := c.held(); v != nil && v != watched {
			watched = v
			wg.Go(func() {
				if err := v.Watch(ctx); err != nil {
					c.world.Etcd.Kill() // at once, whatever else is going on
					lost <- fmt.Errorf("%w: %w", ErrVolumeLost, err)
				}
			})
		}
		if acting == nil {
			a := plan.Next(o)
			repeated = a.Kind == c.Now().Action.Kind && a.Why == c.Now().Action.Why
			c.decide(o, a, a.Kind != plan.Wait && time.Now().After(retry))
			if c.Now().Busy {
				acting = make(chan error, 1)
				wg.Go(func() { acting <- c.act(ctx, o, a) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			return err
		case err := <-acting:
			acting = nil
			switch c.acted(err); {
			case err == nil:
				pause = tick
				retry = time.Time{}
				if repeated {
					retry = time.Now().Add(tick / 2) // it changes nothing: no reason to spin
				}
			case errors.Is(err, errNotYet):
				retry, pause = time.Now().Add(tick/2), tick
			default:
				retry, pause = time.Now().Add(pause), min(2*pause, maxRetry)
			}
		case <-c.world.Mesh.Changed():
		case <-c.again:
		case <-ticker.C:
		}
	}
}

func (c *Coordinator) held() Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.volume
}

// decide records the decision and says so when it is a new one.
func (c *Coordinator) decide(o plan.Observation, a plan.Action, act bool) {
	c.mu.Lock()
	changed := c.now.Action.Kind != a.Kind || c.now.Action.Why != a.Why
	c.now.Observation, c.now.Action, c.now.Busy = o, a, act
	if changed {
		c.now.Since = time.Now()
	}
	if a.Kind == plan.Wait {
		c.now.Err = ""
	}
	c.mu.Unlock()
	if changed {
		c.lg.Info("decided", zap.String("action", string(a.Kind)), zap.String("why", a.Why))
		c.world.Decided(a)
	}
}

// acted records how an action went and says so when it failed in a new way.
func (c *Coordinator) acted(err error) {
	if errors.Is(err, errNotYet) {
		err = nil
	}
	c.mu.Lock()
	a := c.now.Action
	text := ""
	if err != nil {
		text = err.Error()
	}
	changed := c.now.Err != text
	c.now.Busy, c.now.Err = false, text
	c.mu.Unlock()
	if err != nil && changed {
		c.lg.Error("action went wrong", zap.String("action", string(a.Kind)), zap.String("why", a.Why), zap.Error(err))
	}
	if err != nil {
		c.world.Failed(a, err)
	}
}
