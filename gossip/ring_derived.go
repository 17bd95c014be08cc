package gossip

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"holdfast/durable"
)

// maxAhead is how many rotations a node may have missed and still find the key by itself.
const maxAhead = 16

// DerivedRing returns the ring of keys that each node derives from secrets that the cluster shares, so that no key is
// ever sent. secrets gives them as they are now, the primary first. The keys that are in use are kept in path, with
// mode 0600: a secret may be gone before the last node has left its key.
func DerivedRing(path string, secrets func() [][]byte) *Ring {
	return &Ring{origin: &derivedKeys{path: path, secrets: secrets}}
}

type derivedKeys struct {
	path    string
	secrets func() [][]byte
}

// storedKey is a key in the file.
type storedKey struct {
	Key
	Bytes []byte `json:"key"`
}

type storedKeys struct {
	Keys []storedKey `json:"keys"` // the first encrypts
}

// errNoKey says that there is nothing yet to derive a key from.
var errNoKey = errors.New("gossip key: the peers' authority, from which it is derived, is not known here yet")

// derive returns the key of a serial, from 0.
func derive(secret []byte, serial int) fullKey {
	key, err := hkdf.Key(sha256.New, secret, nil, "gossip key "+strconv.Itoa(serial), 32)
	if err != nil {
		panic(err) // only for a length above 255 hashes
	}
	k := newKey(key)
	k.Serial, k.Secret = serial, secretName(secret)
	return k
}

func secretName(secret []byte) string {
	sum := sha256.Sum256(append([]byte("gossip secret "), secret...))
	return hex.EncodeToString(sum[:4])
}

func (d *derivedKeys) describe() Keys {
	k := Keys{Origin: KeysDerived}
	for _, s := range d.secrets() {
		k.Secrets = append(k.Secrets, secretName(s))
	}
	return k
}

// load adds a key of the primary secret if it has none yet: it decrypts, until a rotation uses it. None of another
// secret is added, or keys that were removed would come back.
func (d *derivedKeys) load() ([]fullKey, error) {
	keys, err := readDerived(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	secrets := d.secrets()
	if len(secrets) > 0 && len(keys) < maxKeys &&
		!slices.ContainsFunc(keys, func(k fullKey) bool { return k.Secret == secretName(secrets[0]) }) {
		keys = append(keys, derive(secrets[0], 0))
		return keys, d.save(keys)
	}
	if len(keys) == 0 {
		return nil, errNoKey
	}
	return keys, nil
}

// keep writes the keys in use where the file was removed. Derived again they would be those of before all rotations,
// and one of them may be the one for whose sake there was a rotation.
func (d *derivedKeys) keep(keys []fullKey) error {
	if _, err := os.Lstat(d.path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.save(keys)
}

func readDerived(path string) ([]fullKey, error) {
	text, err := durable.ReadSecret(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the gossip keys: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var stored storedKeys
	if err := dec.Decode(&stored); err != nil {
		return nil, fmt.Errorf("read the gossip keys %s: %w; without the file they are derived again", path, err)
	}
	var keys []fullKey
	for _, s := range stored.Keys {
		k := newKey(s.Bytes)
		if len(s.Bytes) != 32 || k.Fingerprint != s.Fingerprint || s.Serial < 0 || len(keys) == maxKeys {
			return nil, fmt.Errorf("read the gossip keys %s: key %d is damaged; without the file they are derived again", path, len(keys)+1)
		}
		k.Key = s.Key
		keys = append(keys, k)
	}
	return keys, nil
}

func (d *derivedKeys) save(keys []fullKey) error {
	var stored storedKeys
	for _, k := range keys {
		stored.Keys = append(stored.Keys, storedKey{k.Key, k.secret})
	}
	text, err := json.MarshalIndent(stored, "", "  ")
	if err == nil {
		err = durable.WriteFile(d.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the gossip keys: %w", err)
	}
	return nil
}

func (d *derivedKeys) writable() error { return nil } // it is our own directory; save says what is wrong

func (d *derivedKeys) find(o KeyOrder) (fullKey, error) {
	for _, s := range d.secrets() {
		if secretName(s) == o.Key.Secret && o.Key.Serial >= 0 {
			if k := derive(s, o.Key.Serial); k.Fingerprint == o.Key.Fingerprint {
				return k, nil
			}
		}
	}
	return fullKey{}, fmt.Errorf("install gossip key %s: this node does not know the secret %s that it is derived from: has it the peers' authority yet?",
		o.Key.Fingerprint, o.Key.Secret)
}

// ahead are the keys that a cluster may have come to while this node was away: later serials of the secret of its
// primary key, and keys of secrets that are newer. Never one that it had left behind already, or anyone who has an old
// key could bring a node back to it.
func (r *Ring) ahead() []fullKey {
	d, ok := r.origin.(*derivedKeys)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == 0 {
		return nil
	}
	var out []fullKey
	primary := r.keys[0]
	for _, s := range d.secrets() {
		first := 0
		if secretName(s) == primary.Secret {
			first = primary.Serial + 1
		}
		for serial := first; serial < first+maxAhead; serial++ {
			out = append(out, derive(s, serial))
		}
		if secretName(s) == primary.Secret {
			break // what follows is older
		}
	}
	return out
}

// moveTo makes a key that was found elsewhere the one that encrypts, and the only one of its secret.
func (r *Ring) moveTo(k fullKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.DeleteFunc(slices.Clone(r.keys), func(a fullKey) bool { return a.Secret == k.Secret })
	_, err := r.store(slices.Insert(keys, 0, k))
	return err
}

// ExportKeys returns the lines of a gossip.key-file with the derived keys that are kept in path.
func ExportKeys(path string) ([]string, error) {
	keys, err := readDerived(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s # derived, serial %d", base64.StdEncoding.EncodeToString(k.secret), k.Serial))
	}
	return out, nil
}
