package gossip

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Key is what may be shown of a gossip key.
type Key struct {
	// Fingerprint is the first 8 hex digits of the SHA-256 of the key.
	Fingerprint string `json:"fingerprint"`
	// Serial counts the keys that are derived from one secret, from 0.
	Serial int `json:"serial"`
	// Secret names the secret that the key is derived from; "" for a key of a file.
	Secret string `json:"secret,omitempty"`
	// Made is when a rotation made a key of a file; the zero time where that is not known.
	Made time.Time `json:"made,omitzero"`
}

// fullKey is a Key with what must not be shown.
type fullKey struct {
	Key
	secret []byte
}

func newKey(secret []byte) fullKey {
	sum := sha256.Sum256(secret)
	return fullKey{Key: Key{Fingerprint: hex.EncodeToString(sum[:4])}, secret: secret}
}

// The values of Keys.Origin.
const (
	KeysNone    = "none"    // the gossip is in the clear
	KeysFile    = "file"    // of gossip.key-file
	KeysDerived = "derived" // from the peers' authority
)

// Keys are the gossip keys of one node. The first encrypts, each decrypts.
type Keys struct {
	Origin string `json:"origin"`
	Keys   []Key  `json:"keys"`
	// Secrets name the secrets that keys can be derived from here, the primary one first.
	Secrets []string `json:"secrets,omitempty"`
}

// Primary returns the key that encrypts, the zero Key if there is none.
func (k Keys) Primary() Key {
	if len(k.Keys) == 0 {
		return Key{}
	}
	return k.Keys[0]
}

// Has reports whether a key with this fingerprint is among them.
func (k Keys) Has(fingerprint string) bool {
	return slices.ContainsFunc(k.Keys, func(a Key) bool { return a.Fingerprint == fingerprint })
}

// The values of KeyOrder.Do.
const (
	KeyList    = "list"    // only say which keys there are
	KeyCheck   = "check"   // find out whether they could be changed
	KeyInstall = "install" // add one, that decrypts
	KeyUse     = "use"     // have one that is installed encrypt
	KeyRemove  = "remove"  // take some away, none of them the one that encrypts
)

// KeyOrder is a step of a rotation on one node. Whatever is done already is done by it again, without an effect; an
// order that is heard again later changes nothing for the worse: each names the very keys it is about.
type KeyOrder struct {
	Do string `json:"do"`
	// Key is the one to install or to use.
	Key Key `json:"key"`
	// Secret is the new key of a file. A derived one is never sent.
	Secret []byte `json:"secret,omitempty"`
	// Old are the fingerprints of those to remove.
	Old []string `json:"old,omitempty"`
}

// origin is where the keys of a ring lie. Both methods may be called at any time, and not at once.
type origin interface {
	// load returns all keys, the first encrypts. Keys beside an error are good, and could not be kept for good.
	load() ([]fullKey, error)
	// save replaces them for good.
	save(keys []fullKey) error
	// writable says what would keep save from it.
	writable() error
	// find returns the key that an order names.
	find(o KeyOrder) (fullKey, error)
	// describe returns what Keys says beside the keys.
	describe() Keys
}

// Ring holds the gossip keys of this node and follows where they lie: a file, or a secret. Its methods may be called by
// many goroutines at once.
type Ring struct {
	origin origin

	mu      sync.Mutex
	keys    []fullKey
	ring    *memberlist.Keyring // nil until there is a key
	problem string
}

// FileRing returns the ring of a gossip.key-file.
func FileRing(path string) *Ring { return &Ring{origin: &fileKeys{path: path}} }

// Refresh takes over what has changed where the keys lie, and reports whether anything had. An error leaves the keys as
// they are, and is among the problems until a later Refresh.
func (r *Ring) Refresh() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refresh()
}

func (r *Ring) refresh() (bool, error) {
	if d, ok := r.origin.(*derivedKeys); ok && len(r.keys) > 0 {
		if err := d.keep(r.keys); err != nil {
			r.problem = err.Error() + "; the gossip keys are kept in memory alone"
			return false, nil
		}
	}
	keys, err := r.origin.load()
	if len(keys) > 0 && err != nil { // a full disk must not part us from the others
		r.problem = err.Error() + "; the gossip keys are kept in memory alone"
		return r.set(keys), nil
	}
	if err != nil {
		r.problem = err.Error()
		if r.ring != nil {
			r.problem += "; the gossip keys that were read before stay in use"
		}
		return false, err
	}
	r.problem = ""
	return r.set(keys), nil
}

// set gives memberlist the keys, and reports whether they are others. memberlist's way of removing a key changes a
// slice that others are reading, but for the last key: so what differs is taken off the end, and put there.
func (r *Ring) set(keys []fullKey) bool {
	if slices.EqualFunc(keys, r.keys,
		func(a, b fullKey) bool { return a.Key == b.Key && bytes.Equal(a.secret, b.secret) }) {
		return false
	}
	r.keys = slices.Clone(keys)
	if r.ring == nil {
		r.ring = &memberlist.Keyring{}
	}
	// Their lengths were looked at when they were read, and only such that are there are used or removed.
	_ = r.ring.AddKey(keys[0].secret)
	_ = r.ring.UseKey(keys[0].secret)
	for {
		have := r.ring.GetKeys()
		same := 0
		for same < min(len(have), len(keys)) && bytes.Equal(have[same], keys[same].secret) {
			same++
		}
		if same == len(have) {
			break
		}
		_ = r.ring.RemoveKey(have[len(have)-1])
	}
	for _, k := range keys {
		_ = r.ring.AddKey(k.secret)
	}
	return true
}

// Keys returns what may be shown.
func (r *Ring) Keys() Keys {
	if r == nil {
		return Keys{Origin: KeysNone}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.show()
}

func (r *Ring) show() Keys {
	k := r.origin.describe()
	for _, key := range r.keys {
		k.Keys = append(k.Keys, key.Key)
	}
	return k
}

// Obey does one step of a rotation, durably, and returns what there is then. On an error nothing has changed.
func (r *Ring) Obey(o KeyOrder) (Keys, error) {
	if r == nil {
		return Keys{Origin: KeysNone}, errors.New("this node gossips without a key: set gossip.key-file, or tls.mode to ca or auto")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.refresh(); err != nil {
		return r.show(), err
	}
	keys := slices.Clone(r.keys)
	at := slices.IndexFunc(keys, func(k fullKey) bool { return k.Fingerprint == o.Key.Fingerprint })
	switch o.Do {
	case KeyList:
		return r.show(), nil
	case KeyCheck:
		return r.show(), r.origin.writable()
	case KeyInstall:
		if at >= 0 {
			return r.show(), nil
		}
		k, err := r.origin.find(o)
		if err != nil {
			return r.show(), err
		}
		keys = append(keys, k)
	case KeyUse:
		if at < 0 {
			return r.show(), fmt.Errorf("use gossip key %s: it is not installed here", o.Key.Fingerprint)
		}
		k := keys[at]
		keys = slices.Insert(slices.Delete(keys, at, at+1), 0, k)
	case KeyRemove:
		if slices.Contains(o.Old, keys[0].Fingerprint) {
			return r.show(), fmt.Errorf("remove gossip key %s: this node encrypts with it", keys[0].Fingerprint)
		}
		keys = slices.DeleteFunc(keys, func(k fullKey) bool { return slices.Contains(o.Old, k.Fingerprint) })
	default:
		return r.show(), fmt.Errorf("unknown step %q of a rotation: is this node of another version?", o.Do)
	}
	if len(keys) > maxKeys {
		return r.show(), fmt.Errorf("install gossip key %s: %d keys are installed, no more are taken", o.Key.Fingerprint,
			maxKeys)
	}
	return r.store(keys)
}

// maxKeys bounds what each packet is tried with.
const maxKeys = 8

func (r *Ring) store(keys []fullKey) (Keys, error) {
	if slices.EqualFunc(keys, r.keys, func(a, b fullKey) bool { return a.Fingerprint == b.Fingerprint }) {
		return r.show(), nil
	}
	if err := r.origin.save(keys); err != nil {
		return r.show(), err
	}
	r.set(keys)
	return r.show(), nil
}

// Problem is what keeps the keys from being followed, "" if nothing does.
func (r *Ring) Problem() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// derived reports whether the keys are derived from a secret, and their file is ours.
func (r *Ring) derived() bool {
	_, ok := r.origin.(*derivedKeys)
	return ok
}

// keyring is memberlist's; nil until a Refresh has found a key.
func (r *Ring) keyring() *memberlist.Keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring
}
