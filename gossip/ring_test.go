package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/durable"
)

// fleet is a cluster of rings without a network. Anyone who encrypts with a key that another live node has not fails
// the test.
type fleet struct {
	t     *testing.T
	rings map[string]*Ring
	lost  []string
	steps int // orders that are still obeyed; the one after them meets a crash
}

var errCrash = errors.New("crashed")

func (f *fleet) rotation(self string) Rotation {
	return Rotation{Self: self, Ring: f.rings[self],
		Nodes: func() (live, lost []string) { return slices.Sorted(maps.Keys(f.rings)), f.lost },
		Ask: func(_ context.Context, node string, o KeyOrder) (Keys, error) {
			if o.Do != KeyCheck && o.Do != KeyList {
				if f.steps == 0 {
					return Keys{}, errCrash
				}
				f.steps--
			}
			k, err := f.rings[node].Obey(o)
			f.readable()
			return k, err
		}}
}

func (f *fleet) readable() {
	f.t.Helper()
	for from, r := range f.rings {
		for to, s := range f.rings {
			if !s.Keys().Has(r.Keys().Primary().Fingerprint) {
				f.t.Fatalf("%s does not read what %s says", to, from)
			}
			if !bytes.Equal(r.keyring().GetPrimaryKey(), r.keys[0].secret) || len(r.keyring().GetKeys()) != len(r.keys) {
				f.t.Fatalf("memberlist of %s has other keys than the ring", from)
			}
		}
	}
}

func (f *fleet) refresh() {
	f.t.Helper()
	for name, r := range f.rings {
		if _, err := r.Refresh(); err != nil {
			f.t.Fatalf("%s: %v", name, err)
		}
	}
}

func fileFleet(t *testing.T) *fleet {
	f := &fleet{t: t, rings: map[string]*Ring{}, steps: 1 << 20}
	for _, n := range []string{"a", "b", "c"} {
		f.rings[n] = FileRing(keyFile(t, 'x'))
	}
	f.refresh()
	return f
}

func derivedFleet(t *testing.T, secrets *[][]byte) *fleet {
	f := &fleet{t: t, rings: map[string]*Ring{}, steps: 1 << 20}
	for _, n := range []string{"a", "b", "c"} {
		f.rings[n] = DerivedRing(filepath.Join(t.TempDir(), "gossip-keys.json"), func() [][]byte { return *secrets })
	}
	f.refresh()
	return f
}

// settled returns the only key of all.
func (f *fleet) settled() Key {
	f.t.Helper()
	var all []Key
	for name, r := range f.rings {
		k := r.Keys()
		if len(k.Keys) != 1 {
			f.t.Fatalf("%s has the keys %s", name, words(k))
		}
		all = append(all, k.Keys...)
	}
	all = slices.CompactFunc(all, func(a, b Key) bool { return a.Fingerprint == b.Fingerprint })
	if len(all) != 1 {
		f.t.Fatalf("keys: got %v, want one", all)
	}
	return all[0]
}

// A rotation may end at any step, and be taken up at any node that has the key.
func TestRotationGoesOnAfterACrashAnywhere(t *testing.T) {
	t.Parallel()
	secrets := [][]byte{[]byte("s")}
	for origin, make := range map[string]func(*testing.T) *fleet{
		KeysFile:    fileFleet,
		KeysDerived: func(t *testing.T) *fleet { return derivedFleet(t, &secrets) },
	} {
		for steps := range 10 {
			for i, next := range []string{"a", "b", "c"} {
				if testing.Short() && steps%3 != i {
					continue // each step and each node, but not each with each
				}
				t.Run(fmt.Sprintf("%s/%d/%s", origin, steps, next), func(t *testing.T) {
					f := make(t)
					before := f.settled()
					r := f.rotation("a")
					p, err := r.Plan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					f.steps = steps
					if err := r.Run(t.Context(), p); (err == nil) != (steps >= 9) {
						t.Fatalf("with %d steps: got %v", steps, err)
					}
					f.steps = 1 << 20
					f.refresh()
					r = f.rotation(next)
					again, err := r.Plan(t.Context())
					if err != nil && strings.Contains(err.Error(), "run the command there") && origin == KeysFile {
						if next == "a" {
							t.Fatal("a has the key, and is told to run the command elsewhere")
						}
						r = f.rotation("a")
						again, err = r.Plan(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					if begun := steps > 0 && steps < 9; again.Unfinished != begun || begun && again.Key.Fingerprint != p.Key.Fingerprint {
						t.Errorf("after %d steps to %s: got %+v", steps, p.Key.Fingerprint, again)
					}
					if err := r.Run(t.Context(), again); err != nil {
						t.Fatal(err)
					}
					f.refresh()
					if got := f.settled(); got.Fingerprint != again.Key.Fingerprint || got.Fingerprint == before.Fingerprint {
						t.Errorf("key: got %v, want %v", got, again.Key)
					}
				})
			}
		}
	}
}

func TestRotationLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	f := fileFleet(t)
	before := f.settled()
	f.lost = []string{"z"}
	r := f.rotation("a")
	p, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "z") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("got %v, want a refusal that names z", err)
	}
	if got := f.settled(); got.Fingerprint != before.Fingerprint {
		t.Errorf("key: got %v, want %v", got, before)
	}
	r.Force = true
	if err := r.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := f.settled(); got.Fingerprint != p.Key.Fingerprint {
		t.Errorf("key: got %v, want %v", got, p.Key)
	}
}

// A node whose file cannot be written is found before anything has changed anywhere.
func TestRotationNeedsWritableFiles(t *testing.T) {
	t.Parallel()
	f := fileFleet(t)
	before := f.settled()
	f.rings["c"] = &Ring{origin: unwritable{f.rings["c"].origin.(*fileKeys)}} // root writes everywhere
	f.refresh()
	if _, err := f.rotation("a").Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "node c") {
		t.Errorf("got %v, want an error that names c", err)
	}
	if got := f.settled(); got.Fingerprint != before.Fingerprint {
		t.Errorf("key: got %v, want %v", got, before)
	}
}

type unwritable struct{ *fileKeys }

func (unwritable) writable() error { return errors.New("read-only file system") }

func TestKeyFileKeepsWhatAnOperatorWrote(t *testing.T) {
	t.Parallel()
	path := keyFile(t, 'x')
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("# ours\n"+strings.TrimSpace(string(text))+" # the first\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	r := FileRing(path)
	if _, err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	o, err := r.next()
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{KeyInstall, KeyInstall, KeyUse, KeyUse} {
		o.Do = do
		if _, err := r.Obey(o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# ours\n", "# keys\n", " # the first\n", KeyLine(o.Secret, o.Key.Made)} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the file lacks %q", want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode: got %v, %v, want 0400", info.Mode(), err)
	}
	again := FileRing(path)
	if _, err := again.Refresh(); err != nil || again.Keys().Primary() != o.Key {
		t.Errorf("read again: got %+v, %v, want %+v first", again.Keys(), err, o.Key)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("files: got %v, %v", files, err)
	}
}

// An authority that is new brings a key that decrypts at once, and encrypts when all have it.
func TestNewSecret(t *testing.T) {
	t.Parallel()
	secrets := [][]byte{[]byte("old")}
	f := derivedFleet(t, &secrets)
	old := f.settled()
	secrets = [][]byte{[]byte("new"), []byte("old")}
	f.refresh()
	f.readable()
	for name, r := range f.rings {
		if k := r.Keys(); k.Primary() != old || len(k.Keys) != 2 {
			t.Errorf("%s: got %+v, want two keys, the old one first", name, k)
		}
	}
	if p, err := f.rotation("a").Plan(t.Context()); err != nil || p.Key != derive(secrets[0], 0).Key {
		t.Errorf("plan with both: got %+v, %v", p, err)
	}
	secrets = [][]byte{[]byte("new")} // the old one is gone before the rotation, and a node is restarted
	f.rings["b"] = DerivedRing(f.rings["b"].origin.(*derivedKeys).path, func() [][]byte { return secrets })
	f.refresh()
	f.readable()
	r := f.rotation("c")
	p, err := r.Plan(t.Context())
	if err != nil || !p.Unfinished || p.Key.Secret != secretName(secrets[0]) {
		t.Fatalf("plan: got %+v, %v", p, err)
	}
	if err := r.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	secrets = [][]byte{[]byte("new"), []byte("old")} // the old authority is trusted on: its keys do not come back
	f.refresh()
	if got := f.settled(); got != derive(secrets[0], 0).Key {
		t.Errorf("key: got %+v", got)
	}
	for _, k := range f.rings["a"].ahead() {
		if k.Secret != secretName(secrets[0]) || k.Serial == 0 {
			t.Errorf("a node would go back to %+v", k.Key)
		}
	}
}

func TestDerivedKeysAreKeptPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gossip-keys.json")
	secrets := [][]byte{[]byte("s")}
	r := DerivedRing(path, func() [][]byte { return nil })
	if _, err := r.Refresh(); !errors.Is(err, errNoKey) {
		t.Errorf("without a secret: got %v, want %v", err, errNoKey)
	}
	r = DerivedRing(path, func() [][]byte { return secrets })
	if _, err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: got %v, %v, want 0600", info, err)
	}
	first := r.Keys().Primary()
	for _, text := range []string{"", "{", `{"keys":[{"fingerprint":"00000000","serial":0,"key":"AAAA"}]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Refresh(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error with the path", text, err)
		}
		if !strings.Contains(r.Problem(), "stay in use") || r.Keys().Primary() != first {
			t.Errorf("%q: problem %q, keys %+v", text, r.Problem(), r.Keys())
		}
	}
	if k := derive(secrets[0], 1); k.Fingerprint == first.Fingerprint || bytes.Equal(k.secret, derive([]byte("t"), 1).secret) {
		t.Error("keys do not depend on serial and secret")
	}
}

// A key file that an operator changes is taken over, and one that cannot be read is not.
func TestKeyFileIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	pa, pb := keyFile(t, 'x'), keyFile(t, 'x')
	with := func(path string, seeds ...*member) func(*Config) {
		return func(c *Config) { c.KeyFile = path; seeded(seeds...)(c) }
	}
	a := start(t, "main", node("a"), with(pa))
	b := start(t, "main", node("b"), with(pb, a))
	await(t, "b sees a", 5*time.Second, sees(b, "a"))
	put := func(path string, keys ...byte) {
		text, err := os.ReadFile(keyFile(t, keys...))
		if err == nil {
			err = durable.WriteFile(path, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := func(m *member, keys ...byte) func() bool {
		return func() bool {
			want := []string{}
			for _, k := range keys {
				want = append(want, newKey(bytes.Repeat([]byte{k}, 32)).Fingerprint)
			}
			return words(m.ring.Keys()) == strings.Join(want, ", ")
		}
	}
	for _, step := range [][]byte{{'x', 'y'}, {'y', 'x'}, {'y'}} {
		put(pa, step...)
		put(pb, step...)
		await(t, "a follows", 10*time.Second, keys(a, step...))
		await(t, "b follows", 10*time.Second, keys(b, step...))
	}
	b.Publish([]byte("under y"))
	await(t, "a hears b", 5*time.Second, says(a, "b", "under y"))
	if err := os.Chmod(pa, 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, "a complains", 10*time.Second, complains(a, "chmod 600"))
	if !keys(a, 'y')() {
		t.Errorf("keys: got %+v", a.ring.Keys())
	}
	if err := os.Chmod(pa, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "a is content", 10*time.Second, func() bool { return !complains(a, "chmod 600")() })
	if n := a.logs.FilterMessage("lost node").Len() + b.logs.FilterMessage("lost node").Len(); n != 0 {
		t.Errorf("nodes were lost %d times", n)
	}
}

// A fresh node, and one that was away during rotations, find the cluster's key, also when they have found each other
// first.
func TestNodeFindsTheKeyOfTheOthers(t *testing.T) {
	t.Parallel()
	secret := []byte("s")
	ring := func(serial int) *Ring {
		path := filepath.Join(t.TempDir(), "gossip-keys.json")
		d := &derivedKeys{path: path, secrets: func() [][]byte { return [][]byte{secret} }}
		if serial > 0 {
			if err := d.save([]fullKey{derive(secret, serial)}); err != nil {
				t.Fatal(err)
			}
		}
		return &Ring{origin: d}
	}
	a := startRing(t, node("a"), ring(7))
	b := startRing(t, node("b"), ring(0), a)
	c := startRing(t, node("c"), ring(5), b, a)
	await(t, "b sees a", 15*time.Second, sees(b, "a"))
	await(t, "c sees a", 15*time.Second, sees(c, "a"))
	await(t, "c sees b", 15*time.Second, sees(c, "b"))
	for _, m := range []*member{a, b, c} {
		if k := m.ring.Keys(); len(k.Keys) != 1 || k.Primary().Serial != 7 {
			t.Errorf("%s: got %+v, want serial 7", m.self.Node, k)
		}
	}
	// Never back: anyone who has an old key must not bring others to it.
	d := startRing(t, node("d"), ring(9))
	e := startRing(t, node("e"), ring(30), d)
	await(t, "e complains", 10*time.Second, complains(e, "uses another gossip key"))
	if k := e.ring.Keys().Primary(); k.Serial != 30 {
		t.Errorf("e: got %+v, want serial 30", k)
	}
}
