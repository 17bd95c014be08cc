package ec2test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Kind is what a fault does.
type Kind string

// The kinds of faults. Unless a kind names its actions, it applies to all of them.
const (
	// Stale reads see an old state: the one before the last Changes changes, or that of Age ago, or, with neither, that of
	// the injection. Describe calls.
	Stale Kind = "stale"
	// Random reads see any of the last Changes states (all remembered ones if 0), in any order. Describe calls.
	Random Kind = "random"

	LoseRequest  Kind = "lose-request"  // the connection breaks before the request is executed
	LoseResponse Kind = "lose-response" // the request is executed, then the connection breaks
	Late         Kind = "late"          // the connection breaks at once, and the request is executed Delay later
	Throttle     Kind = "throttle"      // RequestLimitExceeded
	Fail         Kind = "fail"          // the request is not executed, and the answer is the error Code
	Deny         Kind = "deny"          // UnauthorizedOperation, even for DryRun

	Slow       Kind = "slow" // the volume is attaching, detaching or creating for Delay longer
	KMSFailure Kind = "kms"  // the volume is attaching, then available again, as if the key were denied. AttachVolume
)

// IMDS is the pseudo-action of a request to the metadata service.
const IMDS = "IMDS"

// Fault is something that goes wrong. LoseRequest for all actions is an outage in which nothing answers, Fail with the
// code Unavailable one in which something answers.
type Fault struct {
	Action  string // "": every action to which the Kind applies, except IMDS
	Caller  string // an instance or the name of an access key; "": everyone
	Volume  string // only requests that name this volume; "": any
	Kind    Kind
	Times   int           // 0: until Clear
	Delay   time.Duration // of Late and Slow
	Changes int           // of Stale and Random
	Age     time.Duration // of Stale
	Code    string        // of Fail; default InternalError

	seen *State // the state at the injection
}

// faults are the active faults. The zero value is ready for use.
type faults struct {
	mu  sync.Mutex
	all []Fault
}

// Inject activates a fault, in addition to the active ones.
func (c *Cloud) Inject(f Fault) error {
	if _, ok := kinds[f.Kind]; !ok {
		return fmt.Errorf("%q is not a kind of fault", f.Kind)
	}
	f.seen = c.State()
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.all = append(c.faults.all, f)
	return nil
}

// Clear ends all faults. A late request is still executed.
func (c *Cloud) Clear() {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.all = nil
}

// kinds are the actions to which each kind of fault applies; nil means all.
var kinds = map[Kind][]string{
	Stale: {"DescribeVolumes", "DescribeInstances"}, Random: {"DescribeVolumes", "DescribeInstances"},
	LoseRequest: nil, LoseResponse: nil, Late: nil, Throttle: nil, Fail: nil, Deny: nil,
	Slow: {"AttachVolume", "DetachVolume", "CreateVolume"}, KMSFailure: {"AttachVolume"},
}

func (f Fault) concerns(action, caller string, volumes []string) bool {
	only := kinds[f.Kind]
	return (f.Action == action || f.Action == "" && action != IMDS) &&
		(f.Caller == "" || f.Caller == caller) &&
		(f.Volume == "" || slices.Contains(volumes, f.Volume)) &&
		(only == nil || slices.Contains(only, action))
}

// take returns the faults of a request, and counts them.
func (fs *faults) take(action, caller string, volumes []string) effects {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var taken effects
	left := fs.all[:0]
	for _, f := range fs.all {
		if f.concerns(action, caller, volumes) {
			taken = append(taken, f)
			if f.Times == 1 {
				continue
			}
			f.Times = max(f.Times-1, 0)
		}
		left = append(left, f)
	}
	fs.all = left
	return taken
}

// effects are the faults of one request.
type effects []Fault

func (e effects) find(k Kind) (Fault, bool) {
	i := slices.IndexFunc(e, func(f Fault) bool { return f.Kind == k })
	if i < 0 {
		return Fault{}, false
	}
	return e[i], true
}

func (e effects) has(k Kind) bool {
	_, ok := e.find(k)
	return ok
}

func (e effects) delay(k Kind) time.Duration {
	f, _ := e.find(k)
	return f.Delay
}

// refusal returns the error with which faults refuse a request, or nil.
func (e effects) refusal() error {
	if e.has(Throttle) {
		return &apiError{"RequestLimitExceeded", "Request limit exceeded."}
	}
	if f, ok := e.find(Fail); ok {
		code := f.Code
		if code == "" {
			code = "InternalError"
		}
		return &apiError{code, "An injected error has occurred"}
	}
	if e.has(Deny) {
		return errDenied
	}
	return nil
}

var errDenied = &apiError{"UnauthorizedOperation", "You are not authorized to perform this operation."}

// read returns the state that a request sees.
func (c *Cloud) read(e effects) *State {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.past) - 1
	if f, ok := e.find(Random); ok {
		n := len(c.past)
		if f.Changes > 0 {
			n = min(n, f.Changes)
		}
		return c.past[last-rand.IntN(n)]
	}
	f, ok := e.find(Stale)
	switch {
	case !ok:
		return c.past[last]
	case f.Changes > 0:
		return c.past[max(0, last-f.Changes)]
	case f.Age > 0:
		then := time.Now().Add(-f.Age)
		for i := last; i > 0; i-- {
			if !c.past[i].At.After(then) {
				return c.past[i]
			}
		}
		return c.past[0]
	}
	return f.seen
}
