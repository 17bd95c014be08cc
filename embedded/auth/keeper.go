package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"holdfast/durable"
)

const (
	lookEvery   = 5 * time.Second  // how often the files and etcd's users and roles are checked for changes
	settleTime  = time.Second      // how long the files must stay as they are; when a Look checks them again
	lookAnyway  = 10 * time.Minute // how often they are compared even without a change
	retryAfter  = 30 * time.Second // after a step that failed
	stepTimeout = 10 * time.Second // for one step through raft
	rounds      = 3                // of comparing and changing, because another node may do the same
)

// Etcd is the member on this node.
type Etcd interface {
	// Auth returns what this member has applied. It fails if no member runs, or if its database cannot be read at the
	// moment.
	Auth() (State, error)
	// ChangeAuth makes one step through raft and returns when it is applied here.
	ChangeAuth(ctx context.Context, s Step) error
}

// World is what the keeper needs from outside.
type World struct {
	Etcd Etcd
	// Leads returns a name for the current leadership of this member, another name for each; "" while it does not lead.
	Leads func() string
	// Obstacle says why nothing may be changed now, "" if changes are allowed. A request by an operator (asked) has
	// fewer obstacles.
	Obstacle func(asked bool) string
	// Did is called after every step, with its error.
	Did func(Step, error)
}

// Report is the result of a comparison.
type Report struct {
	Enabled  bool     `json:"enabled"`            // whether auth is enabled now
	Steps    []string `json:"steps"`              // that were made, or would be made
	Problems []string `json:"problems,omitempty"` // what cannot be done, and why
	Obstacle string   `json:"obstacle,omitempty"` // why nothing can be changed now
}

// Keeper keeps etcd's users and roles as a file says.
type Keeper struct {
	path  string
	world World
	lg    *zap.Logger
	again chan struct{}

	work    sync.Mutex // held while etcd is compared or changed; guards matcher
	matcher matcher

	mu       sync.Mutex // guards problems and obstacle
	problems []string
	obstacle string

	seen  seen              // only Run uses it
	files [sha256.Size]byte // fingerprint at the last look; only Run uses it
	since time.Time         // of the first look with that fingerprint
}

// seen is what the last comparison was made for. While it stays the same, the next one can wait.
type seen struct {
	leads    string
	files    [sha256.Size]byte
	revision uint64
}

// NewKeeper returns a keeper of the file at path; with "" it does nothing. NewKeeper reads nothing.
func NewKeeper(path string, w World, lg *zap.Logger) *Keeper {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	return &Keeper{path: path, world: w, lg: lg, again: make(chan struct{}, 1),
		matcher: matcher{salt: salt, known: map[[sha256.Size]byte]bool{}}}
}

// Look makes the keeper compare soon.
func (k *Keeper) Look() {
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// Problems returns what an operator should know, one sentence each.
func (k *Keeper) Problems() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.problems)
}

// Run keeps the users and roles until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.path == "" {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var next time.Time
	for asked := false; ; {
		var soon <-chan time.Time
		if asked { // the files have not settled yet
			soon = time.After(settleTime)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.again:
			asked = true
		case <-soon:
		case <-ticker.C:
		}
		next, asked = k.look(ctx, next, asked)
	}
}

// look compares if there is a reason to, and returns when to compare again without one. The files must have stayed as
// they are for a moment, because one that is half written may be valid, and name fewer users. Until then it returns
// asked.
func (k *Keeper) look(ctx context.Context, next time.Time, asked bool) (time.Time, bool) {
	w, err := k.read()
	now := seen{leads: k.world.Leads(), files: fingerprint(k.matcher.salt, k.path, w, err)}
	if now.files != k.files {
		k.files, k.since = now.files, time.Now()
	}
	if err != nil {
		k.setProblems([]string{"etcd's users and roles are left alone: " + err.Error()})
		k.seen = seen{}
		return next, false
	}
	if now.leads == "" {
		k.setProblems(w.unreadable())
		k.seen = seen{}
		return next, false
	}
	if time.Since(k.since) < settleTime {
		return next, asked
	}
	state, err := k.world.Etcd.Auth()
	if err != nil { // the member is being defragmented, or has just ended
		return next, false
	}
	now.revision = state.Revision
	if now == k.seen && !asked && time.Now().Before(next) {
		return next, false
	}
	if why := k.world.Obstacle(false); why != "" {
		k.setObstacle(why)
		k.seen = seen{}
		return next, false
	}
	k.setObstacle("")
	report, end, err := k.apply(ctx, w)
	k.seen, next = now, time.Now().Add(lookAnyway)
	if k.seen.revision = end; err != nil {
		next = time.Now().Add(retryAfter)
		report.Problems = append(report.Problems, "etcd's users and roles are not as auth.file says: "+err.Error())
	}
	k.setProblems(report.Problems)
	return next, false
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

// setProblems stores the problems, and logs the new ones.
func (k *Keeper) setProblems(problems []string) {
	k.mu.Lock()
	before := k.problems
	k.problems = problems
	k.mu.Unlock()
	for _, p := range problems {
		if !slices.Contains(before, p) {
			k.lg.Warn("users and roles have a problem", zap.String("problem", p))
		}
	}
}

// setObstacle stores why nothing may be changed now, and logs it once.
func (k *Keeper) setObstacle(why string) {
	k.mu.Lock()
	changed := k.obstacle != why
	k.obstacle = why
	k.mu.Unlock()
	if changed && why != "" {
		k.lg.Info("changes of users and roles wait", zap.String("why", why))
	}
}

// Plan returns what would be done now, and changes nothing.
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

// Apply makes the changes at once, for an operator, on any node that runs a member. With an error, the report has the
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

// apply makes steps until there is no difference, and returns the revision at which there was none.
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
				break // another node may have made the step: compare again
			}
			r.Steps = append(r.Steps, s.String())
		}
	}
	if err == nil {
		err = errors.New("another node or client changes them at the same time: try again")
	}
	return r, revision, err
}

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

// maxPassword is bcrypt's own bound, in bytes; etcd refuses longer passwords.
const maxPassword = 72

// ReadPasswords reads each user's password file, and stores with the user why one cannot be read.
func (w Wanted) ReadPasswords() {
	for i := range w.Users {
		u := &w.Users[i]
		if u.NoPassword {
			continue
		}
		var err error
		if u.Password, err = readPassword(u.PasswordFile); err != nil {
			u.Unreadable = err.Error()
		}
	}
}

// readPassword reads one password, without the line break at its end. No error quotes the password.
func readPassword(path string) (Secret, error) {
	data, err := durable.ReadSecret(path, maxFile)
	if err != nil {
		return "", err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if n := len(data); n == 0 || n > maxPassword || bytes.ContainsAny(data, "\r\n\x00") {
		return "", fmt.Errorf("%s: must hold one line of 1–%d bytes", path, maxPassword)
	}
	return Secret(data), nil
}

// fingerprint changes when the file, or a file that it names, changes. It is useless to anyone who sees it, because it
// begins with a salt of this process.
func fingerprint(salt []byte, path string, w Wanted, err error) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%x %s %v %q\n", salt, path, err, fmt.Sprint(w.Enabled, w.Others, w.Roles))
	for _, u := range w.Users {
		fmt.Fprintf(h, "%q %t %q %q %q\n", u.Name, u.NoPassword, string(u.Password), u.Unreadable, u.Roles)
	}
	h.Sum(sum[:0])
	return sum
}

// matcher compares passwords with hashes, and remembers which ones matched, because bcrypt by design takes a tenth of a
// second of processor time. It remembers only sums that begin with a salt of this process.
type matcher struct {
	salt  []byte
	known map[[sha256.Size]byte]bool
}

// match is a [Matcher].
func (m *matcher) match(hash, password Secret) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %q %q", m.salt, string(hash), string(password)))
	if m.known[sum] {
		return true
	}
	err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	if err == nil {
		m.known[sum] = true
	}
	return err == nil
}

// errNone is returned if auth.file is not set.
var errNone = errors.New("auth.file is not set, so holdfast leaves etcd's users and roles alone: name a file " +
	"(docs/auth.md), the same on all nodes")
