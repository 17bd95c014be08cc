package authorities

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// Keeper keeps the authorities of mode auto. The first node makes them once, and they are stored in the backup store,
// below holdfast/<cluster>/ like the records:
//
//	pki-000001.json   the first edition
//	pki-000002.json   its successor
//
// Each is put on the condition that it does not exist, and never written again. The highest number is current. A copy
// of the current edition is in tls.dir. So nothing depends on the store afterwards, and a store that was emptied gets
// the edition back.
//
// It implements [pki.Source].
type Keeper struct {
	opt     Options
	store   snapshot.Store
	cache   string // path
	lg      *zap.Logger
	poke    chan struct{} // requests a look at the rotation
	Clients *pki.Clients  // the clients of this node's member, and their certificates

	turn  sync.Mutex // held during a look or step
	known            // guarded by turn

	reported
}

// known is what a keeper works with.
type known struct {
	unsaved bool             // have could not be written into the cache
	dead    bool             // have had expired when drive last ran
	probed  bool             // the store was shown to honour conditional puts
	newest  *Edition         // the edition last read from the store
	read    snapshot.Version // the object of newest
}

// reported is what a keeper reports of itself. have is only set by one that also has the turn, and may read it without
// mu.
type reported struct {
	mu      sync.Mutex // never held during I/O
	have    *Edition   // the edition that this node follows
	problem error      // of the last look
	stuck   string     // why the next step of a rotation cannot be taken
	open    string     // an object that is not encrypted although there are recipients
}

const (
	// StorePatience is how long a look waits for the store before it uses the cache.
	StorePatience = 5 * time.Second
	cacheFile     = "authorities.json" // in tls.dir
)

// Options say whose authorities they are, and how they are kept.
type Options struct {
	Cluster    string                           // cluster.name
	Life       time.Duration                    // of new authorities: tls.ca-life
	Dir        string                           // tls.dir, which has the copy
	Options    func() (snapshot.Options, error) // recipients and identities to encrypt and decrypt editions
	Recipients int                              // number of snapshot.recipients
}

// New returns a keeper of the authorities of mode auto in a store. It does not read the store yet.
func New(o Options, store snapshot.Store, lg *zap.Logger) *Keeper {
	return &Keeper{opt: o, store: store, cache: filepath.Join(o.Dir, cacheFile), lg: lg, poke: make(chan struct{}, 1),
		Clients: pki.NewClients()}
}

// Authorities implements [pki.Source].
func (a *Keeper) Authorities(ctx context.Context) (pki.Authorities, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	e, err := a.look(ctx, true)
	if err != nil {
		return pki.Authorities{}, err
	}
	return e.Authorities(), nil
}

// Findings returns what prevents this node from looking, or from taking a step. What a rotation waits for is in its
// state: [Keeper.Rotation].
func (a *Keeper) Findings() (all []health.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem != nil {
		all = append(all, health.New(health.AuthorityFails, "", "certificate authorities: %v", a.problem))
	}
	if a.open != "" {
		all = append(all, health.New(health.AuthorityOpen, "", "%s in the store is not encrypted, although "+
			"snapshot.recipients is set", a.open))
	}
	if a.stuck != "" {
		all = append(all, health.New(health.RotationWaits, "", "authority rotation: %s", a.stuck))
	}
	return all
}

// look returns the current edition, from the store if it answers. With create, it makes the first edition if there is
// none.
func (a *Keeper) look(ctx context.Context, create bool) (*Edition, error) {
	e, problem := a.settle(ctx, create)
	if e != nil {
		problem = errors.Join(problem, a.keep(e))
	}
	a.setProblem(problem)
	if e == nil {
		return nil, problem
	}
	return e, nil
}

// keep makes an edition this node's current one.
func (a *Keeper) keep(e *Edition) error {
	if a.have != nil && a.have.Serial == e.Serial && a.have.Time.Equal(e.Time) && !a.unsaved {
		if _, err := os.Lstat(a.cache); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		a.lg.Warn("the copy of the authorities was removed and is written again", zap.String("file", a.cache))
	}
	err := writeCache(a.cache, *e)
	if err != nil {
		err = fmt.Errorf("keep a copy of the authorities: %w", err)
	}
	if a.have == nil || a.have.Serial != e.Serial {
		a.lg.Info("edition of the certificate authorities changed", zap.Uint64("edition", e.Serial),
			zap.String("phase", string(e.Phase)), zap.String("why", e.Why),
			zap.String("peers", pki.Fingerprint(e.Peers.primary())),
			zap.String("clients", pki.Fingerprint(e.Clients.primary())))
	}
	a.unsaved = err != nil
	a.setHave(e)
	return err
}

func (r *reported) setHave(e *Edition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have = e
}

// Show returns the current edition and changes nothing. problem is what is wrong nevertheless.
func (a *Keeper) Show(ctx context.Context) (e *Edition, problem, err error) {
	have, err := readCache(a.cache, a.opt.Cluster)
	if err != nil {
		problem = err
	}
	newest, err := a.fromStore(ctx)
	switch {
	case newest != nil && have == nil && newest.open:
		return nil, nil, errors.Join(a.refuse(*newest), problem)
	case newest != nil && (have == nil || have.ID == newest.ID && have.Serial <= newest.Serial):
		if have != nil {
			if err := a.follows(ctx, *have, *newest); err != nil {
				return have, err, nil
			}
		}
		return newest, problem, nil
	case have != nil && newest != nil:
		return have, fmt.Errorf("%s is not that of %s, which this node follows", a.object(newest.Serial), a.cache), nil
	case have != nil:
		return have, fmt.Errorf("from %s: %w", a.cache, cmp.Or(err, errors.New("the store has none"))), nil
	}
	return nil, nil, errors.Join(cmp.Or(err,
		errors.New("neither the store nor this node has any: they are made when a node first runs")), problem)
}

func (a *Keeper) setProblem(problem error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if problem != nil && (a.problem == nil || a.problem.Error() != problem.Error()) {
		a.lg.Warn("certificate authorities could not be kept", zap.NamedError("problem", problem))
	}
	a.problem = problem
}

// settle finds out which edition is current. The error is a problem; without an edition, it says why there is none.
func (a *Keeper) settle(ctx context.Context, create bool) (*Edition, error) {
	var damaged error
	if a.have == nil {
		cached, err := readCache(a.cache, a.opt.Cluster)
		if errors.Is(err, errDamaged) {
			damaged = err
		} else if err != nil {
			return nil, err
		}
		a.setHave(cached)
	}
	ctx, cancel := context.WithTimeout(ctx, StorePatience)
	defer cancel()
	newest, err := a.fromStore(ctx)
	have := a.have
	switch {
	case err != nil && have != nil:
		return have, fmt.Errorf("%w; edition %d, of which this node has a copy, counts until then", err, have.Serial)
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%w; this node has no copy in %s, and must not make its "+
			"own, which nobody would trust", err, a.cache), damaged)
	case newest == nil && damaged != nil: // the lost edition is unknown
		return nil, fmt.Errorf("%w, and the store has none: bring either back, or remove the file if "+
			"this cluster never had any", damaged)
	case newest == nil && have == nil && !create:
		return nil, errors.New("the store has none")
	case newest == nil && have == nil:
		return a.createFirst(ctx)
	case have == nil && newest.open:
		return nil, a.refuse(*newest)
	case have == nil:
		return newest, nil
	case newest == nil || newest.ID == have.ID && newest.Serial < have.Serial:
		return have, a.putBack(ctx, newest)
	case newest.ID != have.ID:
		return have, fmt.Errorf("%s in the store begins with other authorities (%s) than %s (%s): two clusters use one "+
			"name, or the store was emptied and started over; this node stays with its own. If the store is right, stop the "+
			"node and remove the file; if the file is, remove the pki-*.json of the store", a.object(newest.Serial),
			newest.ID, a.cache, have.ID)
	}
	if err := a.follows(ctx, *have, *newest); err != nil {
		return have, err
	}
	return newest, nil
}

// refuse says why a node without a copy does not accept an unencrypted edition: anyone could have put it there, while
// those that know the cluster's recipients encrypt for them.
func (a *Keeper) refuse(e Edition) error {
	return fmt.Errorf("%s in the store is not encrypted, although snapshot.recipients is set here: anyone who can write "+
		"the store may have made it. If it is older than the recipients, run `holdfast tls rotate-ca` on a node that has "+
		"the authorities: what follows is encrypted", a.object(e.Serial))
}

// putBack stores an edition that the store has lost.
func (a *Keeper) putBack(ctx context.Context, newest *Edition) error {
	lost := fmt.Errorf("the store has lost %s", a.object(a.have.Serial))
	if newest != nil {
		lost = fmt.Errorf("%w, and its newest edition is %d: was an old copy of the store brought back?", lost, newest.Serial)
	}
	err := a.put(ctx, *a.have)
	if err == nil || errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("%w; this node has put it back from its copy", lost)
	}
	return fmt.Errorf("%w; put it back: %w", lost, err)
}

// createFirst makes the first edition, or returns another node's if that was faster. What the store has counts, not
// what it has answered: a node that followed an edition which is not there would stay alone with it.
func (a *Keeper) createFirst(ctx context.Context) (*Edition, error) {
	e, err := a.fresh(1, time.Now())
	if err != nil {
		return nil, err
	}
	e.Why, e.ID = "the cluster had none", rand.Text()
	if err = e.sign(e.Peers); err == nil {
		err = a.put(ctx, *e)
	}
	if err != nil && !errors.Is(err, snapshot.ErrExists) {
		return nil, err
	}
	if e, err = a.fromStore(ctx); err == nil && e == nil {
		err = fmt.Errorf("%s was put and is not there", a.object(1))
	}
	return e, err
}

// fresh makes an edition of new authorities.
func (a *Keeper) fresh(serial uint64, now time.Time) (*Edition, error) {
	e := &Edition{Version: editionVersion, Cluster: a.opt.Cluster, Serial: serial, Time: now.UTC(), Phase: phaseSettled}
	for name, to := range map[string]*keyed{"etcd-clients-ca": &e.Clients, "etcd-peers-ca": &e.Peers} {
		made, err := pki.NewAuthority(fmt.Sprintf("%s %.40s %d", name, a.opt.Cluster, serial), a.opt.Life)
		if err != nil {
			return nil, fmt.Errorf("make a certificate authority: %w", err)
		}
		to.Trusted = []pemCertificate{{made.Primary}}
		to.Keys = []signing{{Key: pemKey{made.Key}, Made: now.UTC()}}
	}
	return e, nil
}

func (a *Keeper) prefix() string { return "holdfast/" + a.opt.Cluster + "/pki-" }

func (a *Keeper) object(serial uint64) string {
	return fmt.Sprintf("%s%06d.json", a.prefix(), serial)
}

var editionName = regexp.MustCompile(`^(\d{6,19})\.json$`)

// newestObject returns the object of the newest edition in the store, without a name if there is none. The listing may
// be outdated, so newestObject also asks for the edition that would come next.
func (a *Keeper) newestObject(ctx context.Context) (newest snapshot.Object, serial uint64, err error) {
	objects, err := a.store.List(ctx, a.prefix())
	if err != nil {
		return newest, 0, fmt.Errorf("list the cluster's certificate authorities: %w", err)
	}
	for _, o := range objects {
		m := editionName.FindStringSubmatch(strings.TrimPrefix(o.Name, a.prefix()))
		if m == nil {
			continue
		}
		if n, _ := strconv.ParseUint(m[1], 10, 64); newest.Name == "" || n > serial { // 19 digits fit
			newest, serial = o, n
		}
	}
	for {
		next := a.object(serial + 1)
		there, err := snapshot.Exists(ctx, a.store, next)
		if err != nil {
			return newest, 0, fmt.Errorf("look for %s in the store: %w", next, err)
		}
		if !there {
			return newest, serial, nil
		}
		newest, serial = snapshot.Object{Name: next}, serial+1
	}
}

// fromStore returns the newest edition in the store, nil if it has none. It is fetched once.
func (a *Keeper) fromStore(ctx context.Context) (*Edition, error) {
	newest, serial, err := a.newestObject(ctx)
	if err != nil || newest.Name == "" {
		return nil, err
	}
	at := newest.Version()
	if a.newest != nil && a.read == at {
		return a.newest, nil
	}
	e, err := a.get(ctx, newest.Name)
	if err == nil && e.Serial != serial {
		err = fmt.Errorf("it is edition %d, not what its name says", e.Serial)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in the store: %w", newest.Name, err)
	}
	a.read, a.newest = at, e
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open = ""; e.open {
		a.open = newest.Name
	}
	return e, nil
}

func (a *Keeper) get(ctx context.Context, name string) (*Edition, error) {
	text, err := snapshot.ReadObject(ctx, a.store, name, maxEdition)
	if err != nil {
		return nil, err
	}
	sealed := snapshot.Sealed(text)
	if sealed {
		options, err := a.opt.Options()
		if err != nil {
			return nil, fmt.Errorf("it is encrypted: %w", err)
		}
		if text, err = snapshot.Unseal(text, maxEdition, options); err != nil {
			return nil, err
		}
	}
	e, err := decodeEdition(text, a.opt.Cluster)
	if err != nil {
		return nil, fmt.Errorf("it is damaged or of another cluster (%w): bring it back from another copy of the store, or "+
			"move it away if a node has a copy in tls.dir", err)
	}
	e.open = !sealed && a.opt.Recipients > 0
	return e, nil
}

// put stores an edition under its number, if that is free; otherwise the error is [snapshot.ErrExists].
func (a *Keeper) put(ctx context.Context, e Edition) error {
	if !a.probed {
		if err := snapshot.Probe(ctx, a.store); err != nil {
			return err
		}
		a.probed = true
	}
	options, err := a.opt.Options()
	if len(options.Recipients) < a.opt.Recipients { // err may be about an identity, which does not matter here
		return err
	}
	text, err := e.encode()
	if err == nil {
		text, err = snapshot.Seal(text, options)
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", a.object(e.Serial), err)
	}
	return a.store.PutIfAbsent(ctx, a.object(e.Serial), text)
}
