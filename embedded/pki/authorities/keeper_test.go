package authorities

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	filippo "filippo.io/age"
	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// site is a store, and nodes with a tls.dir each.
type site struct {
	*testing.T
	dir   string
	store snapshot.Store
}

func newSite(t *testing.T) *site {
	s := &site{T: t, dir: t.TempDir()}
	s.store = snapshot.NewDir(s.dir)
	return s
}

// node starts a process. One that uses a tls.dir again is the same node after a restart.
func (s *site) node(tlsDir string, change ...func(*Options)) *Keeper {
	o := Options{Cluster: "main", Life: pki.Default().CALife, Dir: tlsDir,
		Options: func() (snapshot.Options, error) { return snapshot.Options{}, nil }}
	for _, c := range change {
		c(&o)
	}
	return New(o, s.store, zap.NewNop())
}

// sealed makes a node encrypt editions for a recipient, and read them with the key in a file, if there is one.
func sealed(recipient, identity string) func(*Options) {
	return func(o *Options) {
		o.Recipients = 1
		o.Options = func() (opt snapshot.Options, err error) {
			if opt.Recipients, err = snapshot.ParseRecipients([]string{recipient}); err == nil && identity != "" {
				opt.Identities, err = snapshot.ReadIdentities(identity)
			}
			return opt, err
		}
	}
}

// peers returns the fingerprint of the peers' authority with which a node signs.
func (s *site) peers(a *Keeper) string {
	s.Helper()
	got, err := a.Authorities(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return pki.Fingerprint(got.Peers.Primary)
}

// refused returns why a node has no authorities.
func (s *site) refused(a *Keeper) string {
	s.Helper()
	got, err := a.Authorities(s.Context())
	if err == nil {
		s.Fatalf("got the authority %s, want none", pki.Fingerprint(got.Peers.Primary))
	}
	return err.Error()
}

func (s *site) object(serial int) string {
	return filepath.Join(s.dir, fmt.Sprintf("holdfast/main/pki-%06d.json", serial))
}

// sum is a digest of the whole store.
func (s *site) sum() string {
	h := sha256.New()
	err := fs.WalkDir(os.DirFS(s.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, e := os.ReadFile(filepath.Join(s.dir, path))
			fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(text))
			err = e
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// rotated takes a cluster of one node, which always follows, through a whole rotation.
func (s *site) rotated(a *Keeper) {
	s.Helper()
	for _, order := range []Order{{Now: true}, {}, {}} {
		s.follow(a, order)
	}
	if a.have.Phase != phaseSettled {
		s.Fatalf("after a rotation: %s", a.have.Phase)
	}
}

func problem(a *Keeper) string { return strings.Join(health.Texts(a.Findings()), "; ") }

// If many find an empty store, one makes the authorities, and all use those.
func TestOneFoundsTheAuthorities(t *testing.T) {
	s := newSite(t)
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		a := s.node(t.TempDir())
		wg.Go(func() {
			if e, err := a.Authorities(context.Background()); err == nil {
				got[i] = pki.Fingerprint(e.Peers.Primary) + pki.Fingerprint(e.Clients.Primary)
			} else {
				got[i] = err.Error()
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] || len(g) != 32 {
			t.Errorf("got %q and %q", got[0], g)
		}
	}
	if names, _ := filepath.Glob(s.dir + "/holdfast/main/*"); len(names) != 1 {
		t.Errorf("the store has %q, want one object", names)
	}
}

// Nothing is put into a store that cannot arbitrate.
func TestAuthoritiesNeedAConditionalPut(t *testing.T) {
	s := newSite(t)
	s.store = careless{s.store}
	if why := s.refused(s.node(t.TempDir())); !strings.Contains(why, "conditional put") {
		t.Errorf("got %q", why)
	}
	if names, _ := filepath.Glob(s.dir + "/holdfast/main/*"); names != nil {
		t.Errorf("the store has %q", names)
	}
}

// careless ignores the condition.
type careless struct{ snapshot.Store }

func (c careless) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return c.Put(ctx, name, bytes.NewReader(data))
}

// forgetful acknowledges its first conditional puts of authorities, and does not keep them.
type forgetful struct {
	snapshot.Store
	puts *atomic.Int32
}

func (f forgetful) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if strings.Contains(name, "/pki-") && f.puts.Add(-1) >= 0 {
		return nil
	}
	return f.Store.PutIfAbsent(ctx, name, data)
}

// A node uses the first authorities only once the store has them. Otherwise it would stay alone with its own, and the
// next node would make others.
func TestAuthoritiesThatAreNotStored(t *testing.T) {
	s := newSite(t)
	s.store = forgetful{s.store, new(atomic.Int32)}
	s.store.(forgetful).puts.Store(1)
	a := s.node(t.TempDir())
	if why := s.refused(a); !strings.Contains(why, "was put and is not there") {
		t.Errorf("got %q", why)
	}
	if got, want := s.peers(s.node(t.TempDir())), s.peers(a); got != want {
		t.Errorf("one node signs with %s, and another with %s", want, got)
	}
}

// With a copy, nothing depends on the store. Without one, a node makes no authorities of its own.
func TestAuthoritiesWithoutTheStore(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), "tls")
	want := s.peers(s.node(dir))
	for path, mode := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, filepath.Join(dir, cacheFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, mode)
		}
	}
	s.must(os.Rename(s.dir, s.dir+".away"))
	a := s.node(dir)
	if got := s.peers(a); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := problem(a); !strings.Contains(p, "edition 1, of which this node has a copy, counts") {
		t.Errorf("problem: %q", p)
	}
	if _, err := a.Advance(t.Context(), View{Leader: true}, Order{Begin: true}, false); err == nil {
		t.Error("a rotation began without the store")
	}
	blank := t.TempDir()
	if why := s.refused(s.node(blank)); !strings.Contains(why, "must not make its own") {
		t.Errorf("got %q", why)
	}
	s.must(os.Rename(s.dir+".away", s.dir))
	if got := s.peers(s.node(blank)); got != want {
		t.Errorf("when it is back: got %s, want %s", got, want)
	}
	if s.peers(a); problem(a) != "" {
		t.Errorf("when it is back: %q", problem(a))
	}
	// The copy is lost while the node runs, and the store later. A new process must not begin with other authorities.
	s.must(os.RemoveAll(dir))
	s.peers(a)
	s.must(os.RemoveAll(filepath.Join(s.dir, "holdfast")))
	if got := s.peers(s.node(dir)); got != want {
		t.Errorf("after both were lost, one after the other: got %s, want %s", got, want)
	}
}

// A store that was emptied, or replaced by an old copy, gets back what it has lost.
func TestStoreThatHasLostTheAuthorities(t *testing.T) {
	for name, lose := range map[string]func(s *site) error{
		"emptied": func(s *site) error { return os.RemoveAll(filepath.Join(s.dir, "holdfast")) },
		"older": func(s *site) error {
			return errors.Join(os.Remove(s.object(4)), os.Remove(s.object(3)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(t), t.TempDir()
			a := s.node(dir)
			first := s.peers(a)
			s.rotated(a)
			want := s.peers(a)
			if first == want {
				t.Fatal("the rotation has changed nothing")
			}
			s.must(lose(s))
			if got := s.peers(a); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if p := problem(a); !strings.Contains(p, "the store has lost holdfast/main/pki-000004.json") || !strings.Contains(p, "has put it back") {
				t.Errorf("problem: %q", p)
			}
			if got := s.peers(s.node(t.TempDir())); got != want {
				t.Errorf("a blank node: got %s, want %s", got, want)
			}
			if s.peers(a); problem(a) != "" {
				t.Errorf("in the end: %q", problem(a))
			}
		})
	}
}

// If someone starts over in an emptied store, the nodes that were there before are not disturbed, and report it.
func TestOtherAuthoritiesInTheStore(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	a := s.node(dir)
	want := s.peers(a)
	s.must(os.RemoveAll(filepath.Join(s.dir, "holdfast")))
	other := s.node(t.TempDir())
	s.peers(other)
	s.rotated(other)
	before := s.sum()
	if got := s.peers(a); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := problem(a); !strings.Contains(p, "begins with other authorities") || !strings.Contains(p, filepath.Join(dir, cacheFile)) {
		t.Errorf("problem: %q", p)
	}
	if _, err := a.Advance(t.Context(), View{Leader: true}, Order{Begin: true}, false); err == nil {
		t.Error("it rotates what is not its own")
	}
	if s.sum() != before {
		t.Error("the store was changed")
	}
}

// A damaged or foreign object is named and changes nothing.
func TestDamagedAuthorities(t *testing.T) {
	edit := func(from, to string) func([]byte) []byte {
		return func(text []byte) []byte {
			changed := bytes.Replace(text, []byte(from), []byte(to), 1)
			if bytes.Equal(changed, text) {
				panic("nothing to change: " + from)
			}
			return changed
		}
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"cut short":     func(text []byte) []byte { return text[:len(text)/2] },
		"no JSON":       func([]byte) []byte { return []byte("-----BEGIN CERTIFICATE-----") },
		"large":         func(text []byte) []byte { return append(text, bytes.Repeat([]byte(" "), maxEdition)...) },
		"empty object":  func([]byte) []byte { return []byte("{}") },
		"other cluster": edit(`"cluster": "main"`, `"cluster": "other"`),
		"other number":  edit(`"serial": 1`, `"serial": 7`),
		"newer form":    edit(`"version": 1`, `"version": 2`),
		"wrong phase":   edit(`"settled"`, `"issuing"`),
		"no phase":      edit(`"settled"`, `""`),
		"no key":        edit(`PRIVATE KEY`, `PUBLIC KEY`),
		"key of another": func(text []byte) []byte {
			var e Edition
			if err := json.Unmarshal(text, &e); err != nil {
				panic(err)
			}
			e.Peers.Keys, e.Clients.Keys = e.Clients.Keys, e.Peers.Keys
			text, _ = e.encode()
			return text
		},
		"sealed garbage": func([]byte) []byte { return []byte("-----BEGIN AGE ENCRYPTED FILE-----\nxx\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(t), t.TempDir()
			want := s.peers(s.node(dir))
			text, err := os.ReadFile(s.object(1))
			s.must(err)
			s.must(os.WriteFile(s.object(1), damage(text), 0o600))
			before := s.sum()
			a, blank := s.node(dir), s.node(t.TempDir())
			if got := s.peers(a); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			why := s.refused(blank)
			for _, p := range []string{problem(a), why} {
				if !strings.Contains(p, "holdfast/main/pki-000001.json") || strings.Contains(p, "PRIVATE") {
					t.Errorf("said %q", p)
				}
			}
			if s.sum() != before {
				t.Error("the store was changed")
			}
		})
	}
}

func TestCachedAuthorities(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	want := s.peers(s.node(dir))
	good, err := os.ReadFile(filepath.Join(dir, cacheFile))
	s.must(err)

	s.must(os.Chmod(filepath.Join(dir, cacheFile), 0o640))
	if why := s.refused(s.node(dir)); !strings.Contains(why, "chmod 600") {
		t.Errorf("others may read it: %q", why)
	}
	s.must(os.Remove(filepath.Join(dir, cacheFile)))
	s.must(os.WriteFile(filepath.Join(dir, cacheFile), bytes.Replace(good, []byte(`"main"`), []byte(`"other"`), 1), 0o600))
	if why := s.refused(s.node(dir)); !strings.Contains(why, `of cluster "other"`) || !strings.Contains(why, filepath.Join(dir, cacheFile)) {
		t.Errorf("another cluster's: %q", why)
	}
	for name, text := range map[string][]byte{"cut short": good[:100], "empty": {}, "an empty object": []byte("{}")} {
		s.must(os.WriteFile(filepath.Join(dir, cacheFile), text, 0o600))
		a := s.node(dir)
		if got := s.peers(a); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, cacheFile)); !bytes.Equal(now, good) {
			t.Errorf("%s: it was not mended", name)
		}
	}
	// The lost edition is unknown, so nothing new is made in its place.
	s.must(os.WriteFile(filepath.Join(dir, cacheFile), good[:100], 0o600))
	s.must(os.RemoveAll(filepath.Join(s.dir, "holdfast")))
	if why := s.refused(s.node(dir)); !strings.Contains(why, "is damaged") {
		t.Errorf("and the store empty: %q", why)
	}
	if _, err := os.Stat(s.object(1)); err == nil {
		t.Error("new authorities were made")
	}
}

// A crash between the store and the cache, or between any two steps, changes nothing: the next look continues.
func TestRotationGoesOnAfterACrash(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	other := t.TempDir()
	s.peers(s.node(other))
	serial := uint64(1)
	for _, order := range []Order{{Now: true}, {}, {}} {
		s.peers(s.node(dir))
		old, err := os.ReadFile(filepath.Join(dir, cacheFile))
		s.must(err)
		a := s.node(dir) // a new process takes each step
		got, err := a.Authorities(t.Context())
		s.must(err)
		m := Stance{Slot: "a", Known: true, Running: true, Stance: pki.Stance{Issuer: pki.Fingerprint(got.Peers.Primary)}}
		for _, c := range got.Peers.Bundle {
			m.Trusts = append(m.Trusts, pki.Fingerprint(c))
		}
		_, err = a.Advance(t.Context(), View{Leader: true, Members: []Stance{m}}, order, false)
		s.must(err)
		serial++
		s.must(os.WriteFile(filepath.Join(dir, cacheFile), old, 0o600)) // this write had not happened yet
		b := s.node(dir)
		if s.peers(b); b.have.Serial != serial || problem(b) != "" {
			t.Fatalf("after a crash: edition %d, %q; want %d", b.have.Serial, problem(b), serial)
		}
	}
	late := s.node(other) // this node was away all the time
	if s.peers(late); late.have.Serial != serial || late.have.Phase != phaseSettled {
		t.Errorf("a node that was away: edition %d, %s", late.have.Serial, late.have.Phase)
	}
}

// If two nodes take the same step at once, it is taken once.
func TestTwoRotateAtOnce(t *testing.T) {
	s := newSite(t)
	a, b := s.node(t.TempDir()), s.node(t.TempDir())
	s.peers(a)
	s.peers(b)
	var wg sync.WaitGroup
	for _, n := range []*Keeper{a, b} {
		wg.Go(func() {
			// The second one is told of the rotation in progress, not of an object that exists.
			if _, err := n.Advance(context.Background(), View{}, Order{Begin: true}, false); errors.Is(err, snapshot.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.peers(a) != s.peers(b) || a.have.Serial != 2 || b.have.Serial != 2 || len(a.have.Peers.Trusted) != 2 {
		t.Errorf("editions %d and %d", a.have.Serial, b.have.Serial)
	}
}

// A dry run changes nothing, and a node that does not lead does not even read the store.
func TestRotationThatIsNotTaken(t *testing.T) {
	s := newSite(t)
	c := &countedStore{Store: s.store}
	s.store = c
	a := s.node(t.TempDir())
	s.peers(a)
	before := s.sum()
	meaning, err := a.Advance(t.Context(), View{}, Order{Begin: true}, true)
	if err != nil || !strings.Contains(meaning, "edition 2") || !strings.Contains(meaning, "--now") {
		t.Errorf("dry: %q, %v", meaning, err)
	}
	if _, err := a.Advance(t.Context(), View{}, Order{DropOld: true}, false); err == nil {
		t.Error("nothing to drop, and no error")
	}
	if s.sum() != before {
		t.Error("the store was changed")
	}
	gets := c.gets.Load()
	a.drive(t.Context(), View{})
	a.drive(t.Context(), View{Leader: true})
	s.peers(a)
	if n := c.gets.Load() - gets; n != 2 { // what would come next is asked for: by the leader, and for the certificate
		t.Errorf("%d objects were read, want 2", n)
	}
}

// behind lists nothing, or what lay there before.
type behind struct {
	snapshot.Store
	listed []snapshot.Object
}

func (b behind) List(context.Context, string) ([]snapshot.Object, error) { return b.listed, nil }

// A listing that is empty or old does not make a new node go by authorities that are replaced.
func TestListingThatIsBehind(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	first, err := s.store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Advance(t.Context(), View{}, Order{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	for name, listed := range map[string][]snapshot.Object{"empty": nil, "old": first} {
		b := s.node(t.TempDir())
		b.store = behind{s.store, listed}
		if _, err := b.Authorities(t.Context()); err != nil || b.have.Serial != 2 {
			t.Errorf("%s: got edition %+v, %v", name, b.have, err)
		}
	}
}

// Any node replaces expired authorities, because there is no leader any more.
func TestExpiredAuthoritiesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		a := s.node(t.TempDir())
		a.opt.Life = 24 * time.Hour
		old := s.peers(a)
		a.drive(t.Context(), View{})
		if a.have.Serial != 1 {
			t.Error("they were replaced before their end, without a leader")
		}
		time.Sleep(25 * time.Hour)
		a.drive(t.Context(), View{}) // it may not have heard of any node yet
		a.drive(t.Context(), View{Led: true})
		if p := problem(a); a.have.Serial != 1 || !strings.Contains(p, "look at the clock") {
			t.Errorf("a node whose clock is ahead of the leader's made edition %d; %s", a.have.Serial, p)
		}
		for range 2 {
			a.drive(t.Context(), View{})
		}
		if a.have.Phase != phaseIssuing { // now there can be a leader again
			t.Errorf("without a leader: %s", a.have.Phase)
		}
		a.drive(t.Context(), View{Leader: true})
		e := a.have
		if s.peers(a) == old || e.Serial != 4 || e.Phase != phaseSettled || len(e.Peers.Trusted) != 1 || !e.ends().After(time.Now().Add(23*time.Hour)) {
			t.Errorf("edition %d, %s, ends %s; %s", e.Serial, e.Phase, e.ends(), problem(a))
		}
	})
}

func TestSealedAuthorities(t *testing.T) {
	s := newSite(t)
	id, err := filippo.GenerateX25519Identity()
	s.must(err)
	other, err := filippo.GenerateX25519Identity()
	s.must(err)
	keys := func(id *filippo.X25519Identity) string {
		path := filepath.Join(t.TempDir(), "key")
		s.must(os.WriteFile(path, []byte(id.String()+"\n"), 0o600))
		return path
	}
	with := func(identity string) func(*Options) { return sealed(id.Recipient().String(), identity) }
	dir := t.TempDir()
	want := s.peers(s.node(dir, with(keys(id))))
	text, err := os.ReadFile(s.object(1))
	s.must(err)
	if !snapshot.Sealed(text) || bytes.Contains(text, []byte("PRIVATE")) || bytes.Contains(text, []byte("main")) {
		t.Errorf("the object is not encrypted:\n%s", text)
	}
	if got := s.peers(s.node(t.TempDir(), with(keys(id)))); got != want {
		t.Errorf("with the key: got %s, want %s", got, want)
	}
	for name, identity := range map[string]string{"without": "", "another": keys(other), "gone": "/nowhere/key"} {
		why := s.refused(s.node(t.TempDir(), with(identity)))
		if !strings.Contains(why, "snapshot.identity-file") || !strings.Contains(why, "pki-000001.json") {
			t.Errorf("%s key: %q", name, why)
		}
	}
	if got := s.peers(s.node(dir, with(""))); got != want {
		t.Errorf("with a copy, without the key: got %s, want %s", got, want)
	}
	// A recipient that cannot be parsed must not lead to an edition that everybody can read.
	bad := s.node(dir, sealed("age1nonsense", ""))
	s.must(os.RemoveAll(filepath.Join(s.dir, "holdfast")))
	if s.peers(bad); !strings.Contains(problem(bad), "age1nonsense") {
		t.Errorf("problem: %q", problem(bad))
	}
	if _, err := os.Stat(s.object(1)); err == nil {
		t.Error("it was stored all the same")
	}
}

// An edition from before there were recipients is reported. A node that knows nothing else does not accept it, until a
// rotation has encrypted its successor.
func TestAuthoritiesFromBeforeTheRecipients(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	s.peers(s.node(dir))
	id, err := filippo.GenerateX25519Identity()
	s.must(err)
	key := filepath.Join(t.TempDir(), "key")
	s.must(os.WriteFile(key, []byte(id.String()+"\n"), 0o600))
	with := sealed(id.Recipient().String(), key)
	a := s.node(dir, with)
	want := s.peers(a)
	if p := problem(a); !strings.Contains(p, "pki-000001.json in the store is not encrypted") {
		t.Errorf("findings: %q", p)
	}
	if why := s.refused(s.node(t.TempDir(), with)); !strings.Contains(why, "tls rotate-ca") {
		t.Errorf("a blank node: %s", why)
	}
	if _, _, err := s.node(t.TempDir(), with).Show(t.Context()); err == nil {
		t.Error("a command without a copy believes it")
	}
	s.follow(a, Order{Now: true})
	if s.peers(a); problem(a) != "" {
		t.Errorf("findings: %q", problem(a))
	}
	if got := s.peers(s.node(t.TempDir(), with)); got != want {
		t.Errorf("a blank node afterwards: got %s, want %s", got, want)
	}
}

// A key is in no text but that of the edition.
func TestKeysAreNotShown(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, a.have.Peers.Keys[0].Key); text != "(secret)" {
			t.Errorf("%s: %s", format, text)
		}
	}
}

// countedStore counts what is read from a store.
type countedStore struct {
	snapshot.Store
	gets atomic.Int64
}

func (c *countedStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, name)
}
