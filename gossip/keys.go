package gossip

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"holdfast/durable"
)

const (
	maxKeys     = 8               // each packet is tried with all of them
	maxKeyFile  = 64 << 10        // bytes
	keyInterval = 2 * time.Second // how often the file is looked at
)

// keyring is memberlist's own, with the keys of a gossip.key-file, which it follows. Without a file it has none.
type keyring struct {
	path  string
	ring  memberlist.Keyring // the first key encrypts, each decrypts
	shown atomic.Pointer[derived]
}

// errKeys is what a certificate means that no key of ours has made.
var errKeys = errors.New("its gossip is not protected as ours is (another gossip.key-file, only one side has one, or " +
	"TLS on one side alone)")

// derived are the certificates that all who have the keys can make.
type derived struct {
	own *tls.Certificate // of the first key
	all *x509.CertPool
}

// derive makes the certificates of the keys. The same key makes the same one everywhere. Without keys there is one
// that anyone can make, and that protects nothing.
func derive(keys [][]byte) (*derived, error) {
	if len(keys) == 0 {
		keys = [][]byte{nil}
	}
	d := &derived{all: x509.NewCertPool()}
	for _, secret := range keys {
		seed, err := hkdf.Key(sha256.New, secret, nil, "holdfast gossip observers", ed25519.SeedSize)
		if err != nil {
			return nil, err
		}
		key := ed25519.NewKeyFromSeed(seed)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "holdfast gossip key"},
			NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		d.all.AddCert(leaf)
		d.own = cmp.Or(d.own, &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf})
	}
	return d, nil
}

// tls is what an observer and a node show each other in a mesh without TLS: that they have a key in common.
func (r *keyring) tls() TLS {
	return TLS{
		Certificate: func() (*tls.Certificate, error) { return r.shown.Load().own, nil },
		Authorities: func() (*x509.CertPool, error) { return r.shown.Load().all, nil },
		Speaker:     func(*x509.Certificate) (Speaker, error) { return Speaker{Role: RoleNode}, nil },
		foreign:     errKeys,
	}
}

// CheckKeyFile returns why a gossip.key-file cannot be used, nil if it can.
func CheckKeyFile(path string) error {
	_, err := readKeys(path)
	return err
}

// NewKey is a new line for a gossip.key-file.
func NewKey() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return base64.StdEncoding.EncodeToString(secret)
}

// readKeys returns the keys of a file. A file that others may read is refused, because its keys are no secret; so is a
// file without keys, because the configuration asks for authentication.
func readKeys(path string) (keys [][]byte, err error) {
	text, err := durable.ReadSecret(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read gossip.key-file: %w", err)
	}
	for _, line := range lines(string(text)) {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		if err != nil {
			// The line itself is secret, so the error shows only which one it is.
			return nil, fmt.Errorf("read gossip.key-file %s: key %d is not base64", path, len(keys)+1)
		}
		if err := memberlist.ValidateKey(secret); err != nil {
			return nil, fmt.Errorf("read gossip.key-file %s: key %d must have 16, 24 or 32 bytes, has %d", path,
				len(keys)+1, len(secret))
		}
		if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, secret) }) {
			keys = append(keys, secret)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read gossip.key-file %s: it holds no key", path)
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("read gossip.key-file %s: it holds %d keys, at most %d are taken", path, len(keys), maxKeys)
	}
	return keys, nil
}

// refresh takes over the keys of the file, and reports whether they changed. An error leaves the keys as they are.
// memberlist removes a key from a slice that others are reading, except for the last one: so keys that differ are
// removed from the end and added there.
func (r *keyring) refresh() (changed bool, err error) {
	var keys [][]byte
	if r.path != "" {
		keys, err = readKeys(r.path)
	}
	if err != nil || r.shown.Load() != nil && slices.EqualFunc(keys, r.ring.GetKeys(), bytes.Equal) {
		return false, err
	}
	d, err := derive(keys)
	if err != nil {
		return false, err
	}
	r.shown.Store(d)
	if len(keys) == 0 {
		return true, nil
	}
	// Their lengths were checked when they were read, and only keys that are there are used or removed.
	_ = r.ring.AddKey(keys[0])
	_ = r.ring.UseKey(keys[0])
	for {
		have := r.ring.GetKeys()
		same := 0
		for same < min(len(have), len(keys)) && bytes.Equal(have[same], keys[same]) {
			same++
		}
		if same == len(have) {
			break
		}
		_ = r.ring.RemoveKey(have[len(have)-1])
	}
	for _, k := range keys {
		_ = r.ring.AddKey(k)
	}
	return true, nil
}

// follow takes over changes of the file, until ctx ends.
func (r *keyring) follow(ctx context.Context, n *notices, lg *zap.Logger) {
	tick := time.NewTicker(keyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := r.refresh()
		if err != nil {
			n.warn(ProblemKeyFile, err.Error()+"; the gossip keys that were read before stay in use")
			continue
		}
		n.settle(ProblemKeyFile)
		if changed {
			lg.Info("gossip keys changed", zap.Int("keys", len(r.ring.GetKeys())))
			n.settleAll(reasonKey + "/")
		}
	}
}
