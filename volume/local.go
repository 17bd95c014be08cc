package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Local is the provider of directories on this machine.
type Local struct {
	cfg     LocalConfig
	node    string
	markers []string // paths of the markers; without any, nothing is remembered
	log     *zap.Logger
	mounts  mounts
	step    func(string) // called between the steps of a change; tests end the process there

	watched atomic.Pointer[localClaim]
	unborne atomic.Value // string: why the marker could not be written, "" if it was

	mu   sync.Mutex
	held *localClaim     // the one claim of this process
	left map[string]left // by slot: volumes seen without their holder
}

// left records when a volume was first seen unlocked while its tag named another node as holder. since uses this
// process's monotonic clock.
type left struct {
	nonce string
	since time.Time
}

// NewLocal returns the provider for a node. The files markers remember the volume that the node held last, see
// [MarkerName]. NewLocal does no I/O: Claim reports problems of the root.
func NewLocal(cfg LocalConfig, node string, markers []string, lg *zap.Logger) *Local {
	return &Local{
		cfg:     cfg,
		node:    node,
		markers: markers,
		log:     lg,
		mounts:  systemMounts(),
		step:    func(string) {},
		left:    make(map[string]left),
	}
}

// Claim implements Provider.
func (l *Local) Claim(ctx context.Context, want Want) (Claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.claim(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("claim a volume: %w", err) // a typed nil must not become a Claim
	}
	l.held = c
	return c, nil
}

func (l *Local) claim(ctx context.Context, want Want) (*localClaim, error) {
	if l.held != nil {
		return nil, fmt.Errorf("this process holds slot %s already", l.held.Want.Slot)
	}
	if err := errors.Join(ctx.Err(), want.Validate()); err != nil {
		return nil, err
	}
	root, err := l.open()
	if err != nil {
		return nil, err
	}
	slots, err := l.candidates(root, want)
	if err != nil {
		return nil, err
	}
	return l.first(ctx, root, l.judgeAll(root, slots, want), want)
}

// first takes the first of the judged volumes that can be taken. A broken volume does not keep the node from another
// one, unless the broken volume is the node's own.
func (l *Local) first(ctx context.Context, root string, judged []judged, want Want) (*localClaim, error) {
	var refused []string
	var broken []error
	for _, j := range judged {
		if j.err != nil {
			broken = append(broken, fmt.Errorf("slot %s: %w", j.slot, j.err))
			continue
		}
		if !j.take {
			refused = append(refused, j.slot+": "+j.why)
			if j.own {
				break
			}
			continue
		}
		c, err := l.take(ctx, root, j.sighting, want)
		switch {
		case err == nil:
			for _, e := range broken {
				l.log.Warn("passed over a broken volume", zap.Error(e))
			}
			return c, nil
		case errors.Is(err, ErrBusy):
			refused = append(refused, fmt.Sprintf("%s: %v", j.slot, err))
		default:
			broken = append(broken, fmt.Errorf("slot %s: %w", j.slot, err))
		}
		if j.own {
			break
		}
	}
	if len(broken) > 0 {
		return nil, errors.Join(broken...)
	}
	return nil, None{strings.Join(refused, "; ")}
}

// List implements Provider.
func (l *Local) List(ctx context.Context, want Want) ([]Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(ctx.Err(), want.Validate()); err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	root, err := l.top()
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	slots, err := l.withData(root, want.Slots)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	candidates, choice := l.candidates(root, want)
	if l.cfg.Directory == "" { // otherwise there is only the one volume
		slots = append(slots, want.Slots...)
	}
	slots = append(slots, candidates...)
	slices.Sort(slots)
	var infos []Info
	for _, j := range l.judgeAll(root, slices.Compact(slots), want) {
		if j.take && !slices.Contains(candidates, j.slot) {
			j.take, j.why = false, "another volume comes first"
			if choice != nil {
				j.why = choice.Error()
			}
		}
		infos = append(infos, l.info(j))
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Slot, b.Slot) })
	return infos, nil
}

func (l *Local) info(j judged) Info {
	i := Info{Slot: j.slot, Volume: localVolume(j.slot), State: StateFree, Decision: DecisionWait, Why: j.why}
	if j.tag != nil {
		i.Holder, i.Epoch, i.Disk = j.tag.Owner, j.tag.Epoch, j.tag.Disk
	}
	switch {
	case l.held != nil && l.held.Want.Slot == j.slot:
		i.State, i.Decision, i.Why = StateHeld, DecisionKeep, "held by this process"
	case j.err != nil:
		i.State = StateUnknown
	case j.locked:
		i.State = StateHeld
	case l.held != nil:
		i.Why = fmt.Sprintf("this process holds slot %s", l.held.Want.Slot)
	case j.take:
		i.Decision = DecisionTake
	}
	return i
}

// localVolume is the volume ID of a slot, since a directory has no other name.
func localVolume(slot string) string { return "local:" + slot }

// idle returns how long this process has seen the volume without the node that its tag names. The time starts only when
// the holder is gone, so a node that is restarted after a year gets its full time.
func (l *Local) idle(s sighting) time.Duration {
	if s.err != nil || s.locked || s.tag == nil || s.tag.Phase == PhaseReleased {
		delete(l.left, s.slot)
		return 0
	}
	seen, ok := l.left[s.slot]
	if !ok || seen.nonce != s.tag.Nonce {
		seen = left{nonce: s.tag.Nonce, since: time.Now()}
		l.left[s.slot] = seen
		return 0
	}
	return time.Since(seen.since)
}
