package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	lookEvery   = 5 * time.Second  // at the files, and whether etcd's users and roles have changed
	lookAnyway  = 10 * time.Minute // compare although nothing seems to have changed
	retryAfter  = 30 * time.Second // a step that failed
	stepTimeout = 10 * time.Second // of one step through raft
	rounds      = 3                // of comparing and changing, for another node may be at it too
)

// Etcd is the member on this node.
type Etcd interface {
	// Auth returns what this member has applied; an error while there is none, or it cannot be read just now.
	Auth() (State, error)
	// ChangeAuth makes one step through raft and returns when it is applied here.
	ChangeAuth(ctx context.Context, s Step) error
}

// World is everything outside.
type World struct {
	Etcd Etcd
	// Leads names the leadership of this member, another name for each; "" while it does not lead.
	Leads func() string
	// Obstacle says why nothing may be changed now, "" if it may. What an operator asks for has fewer obstacles.
	Obstacle func(asked bool) string
	// Did is told of every step, with its error.
	Did func(Step, error)
}

// Report is what a comparison came to.
type Report struct {
	Enabled  bool     `json:"enabled"`            // auth is, now
	Steps    []string `json:"steps"`              // that were made, or would be
	Problems []string `json:"problems,omitempty"` // what cannot be done, and why
	Obstacle string   `json:"obstacle,omitempty"` // why nothing can be changed now
}

// Keeper keeps etcd's users and roles as a file says.
type Keeper struct {
	path  string
	world World
	lg    *zap.Logger
	again chan struct{}
	salt  []byte

	work    sync.Mutex // held while etcd is compared or changed; guards the next
	matcher matcher

	mu       sync.Mutex // guards what follows
	problems []string
	waits    string

	seen seen // only Run uses it
}

// seen is what the last comparison was made for. While it stays the same the next one can wait.
type seen struct {
	leads    string
	files    [sha256.Size]byte
	revision uint64
}

// NewKeeper makes a keeper of the file at path; "" is none, and it does nothing. It does not read yet.
func NewKeeper(path string, w World, lg *zap.Logger) *Keeper {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	return &Keeper{path: path, world: w, lg: lg, again: make(chan struct{}, 1), salt: salt,
		matcher: matcher{salt: salt, known: map[[sha256.Size]byte]bool{}}}
}

// Look makes the keeper compare soon.
func (k *Keeper) Look() {
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// Problems are what an operator should know, a sentence each.
func (k *Keeper) Problems() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.problems)
}

// Run keeps until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.path == "" {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var next time.Time
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-k.again:
			asked = true
		case <-ticker.C:
		}
		next = k.look(ctx, next, asked)
	}
}

// look compares, if there is a reason to, and returns when to do so again without any.
func (k *Keeper) look(ctx context.Context, next time.Time, asked bool) time.Time {
	w, err := k.read()
	now := seen{leads: k.world.Leads(), files: fingerprint(k.salt, k.path, w, err)}
	if err != nil {
		k.say([]string{"etcd's users and roles are left alone: " + err.Error()})
		k.seen = seen{}
		return next
	}
	if now.leads == "" {
		k.say(w.unreadable())
		k.seen = seen{}
		return next
	}
	state, err := k.world.Etcd.Auth()
	if err != nil { // it is being defragmented, or has just ended
		return next
	}
	now.revision = state.Revision
	if now == k.seen && !asked && time.Now().Before(next) {
		return next
	}
	if why := k.world.Obstacle(false); why != "" {
		k.wait(why)
		k.seen = seen{}
		return next
	}
	k.wait("")
	report, end, err := k.apply(ctx, w)
	k.seen, next = now, time.Now().Add(lookAnyway)
	if k.seen.revision = end; err != nil {
		next = time.Now().Add(retryAfter)
		report.Problems = append(report.Problems, "etcd's users and roles are not as auth.file says: "+err.Error())
	}
	k.say(report.Problems)
	return next
}

// read returns what the files say now.
func (k *Keeper) read() (Wanted, error) {
	if k.path == "" {
		return Wanted{}, errNone
	}
	w, err := Read(k.path)
	if err == nil {
		w.ReadPasswords()
	}
	return w, err
}

func (w Wanted) unreadable() (problems []string) {
	for _, u := range w.Users {
		if u.Unreadable != "" {
			problems = append(problems, fmt.Sprintf("the password of user %s: %s", u.Name, u.Unreadable))
		}
	}
	return problems
}

// say takes the problems over, and logs those that are new.
func (k *Keeper) say(problems []string) {
	k.mu.Lock()
	before := k.problems
	k.problems = problems
	k.mu.Unlock()
	for _, p := range problems {
		if !slices.Contains(before, p) {
			k.lg.Warn("users and roles", zap.String("problem", p))
		}
	}
}

// wait notes why nothing may be changed now, and logs it once.
func (k *Keeper) wait(why string) {
	k.mu.Lock()
	changed := k.waits != why
	k.waits = why
	k.mu.Unlock()
	if changed && why != "" {
		k.lg.Info("users and roles wait", zap.String("why", why))
	}
}

// Plan says what would be done now, and does nothing.
func (k *Keeper) Plan() (Report, error) {
	w, err := k.read()
	if err != nil {
		return Report{}, err
	}
	k.work.Lock()
	defer k.work.Unlock()
	state, err := k.world.Etcd.Auth()
	if err != nil {
		return Report{}, err
	}
	steps, problems := Diff(w, state, k.matcher.match)
	r := Report{Enabled: state.Enabled, Steps: []string{}, Problems: problems, Obstacle: k.world.Obstacle(true)}
	for _, s := range steps {
		r.Steps = append(r.Steps, s.String())
	}
	return r, nil
}

// Apply does at once, and on any node that runs a member, what an operator asks for. With an error the report has the
// steps that were made before it.
func (k *Keeper) Apply(ctx context.Context) (Report, error) {
	w, err := k.read()
	if err != nil {
		return Report{}, err
	}
	if why := k.world.Obstacle(true); why != "" {
		return Report{}, errors.New(why)
	}
	report, _, err := k.apply(ctx, w)
	return report, err
}

// apply makes the difference, until there is none, and returns the revision at which that was so.
func (k *Keeper) apply(ctx context.Context, w Wanted) (r Report, revision uint64, err error) {
	k.work.Lock()
	defer k.work.Unlock()
	for range rounds {
		state, e := k.world.Etcd.Auth()
		if e != nil {
			return r, 0, e
		}
		var steps []Step
		steps, r.Problems = Diff(w, state, k.matcher.match)
		r.Enabled, revision = state.Enabled, state.Revision
		if len(steps) == 0 {
			return r, revision, nil
		}
		for _, s := range steps {
			if err = k.change(ctx, s); err != nil {
				break // perhaps another node did it: compare again
			}
			r.Steps = append(r.Steps, s.String())
		}
	}
	if err == nil {
		err = errors.New("somebody else changes them at the same time")
	}
	return r, revision, err
}

// change makes one step.
func (k *Keeper) change(ctx context.Context, s Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	err := k.world.Etcd.ChangeAuth(ctx, s)
	if err != nil {
		err = fmt.Errorf("%s: %w", s, err)
		k.lg.Warn("users and roles were not changed", zap.Error(err))
	} else {
		k.lg.Info("changed users and roles", zap.Stringer("step", s))
	}
	k.world.Did(s, err)
	return err
}
