package gossip

import (
	"bytes"
	"cmp"
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
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"holdfast/durable"
)

const (
	maxKeys    = 8
	maxKeyFile = 64 << 10 // bytes
)

// keyring is what a gossip.key-file stands for: certificates that only those can make who have its keys. It follows the
// file: the first key makes the certificate that is shown, and those of all keys are accepted. Without a file there is
// one that anyone can make, and that protects nothing.
type keyring struct {
	path string
	*notices

	mu   sync.Mutex
	last derived // before the file was read it has none
}

// errKeys is what a certificate means that no key of ours has made.
var errKeys = errors.New("its gossip is not protected as ours is (another gossip.key-file, only one side has one, or " +
	"TLS on one side alone)")

// derived are the certificates that all who have the keys can make.
type derived struct {
	keys [][]byte
	own  *tls.Certificate // of the first key
	all  *x509.CertPool
}

// derive makes the certificates of the keys. The same key makes the same one everywhere.
func derive(keys [][]byte) (derived, error) {
	d := derived{keys: keys, all: x509.NewCertPool()}
	for _, secret := range keys {
		seed, err := hkdf.Key(sha256.New, secret, nil, "holdfast gossip observers", ed25519.SeedSize)
		if err != nil {
			return d, err
		}
		key := ed25519.NewKeyFromSeed(seed)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "holdfast gossip key"},
			NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return d, err
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return d, err
		}
		d.all.AddCert(leaf)
		d.own = cmp.Or(d.own, &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf})
	}
	return d, nil
}

// now returns the certificates of the file as it is now. If it cannot be used, the last ones stay.
func (r *keyring) now() (derived, error) {
	keys, err := [][]byte{nil}, error(nil)
	if r.path != "" {
		keys, err = readKeys(r.path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.last.own != nil
	if err != nil && known {
		r.warn(ProblemKeyFile, err.Error()+"; the gossip keys that were read before stay in use")
		return r.last, nil
	}
	r.settle(ProblemKeyFile)
	if err == nil && !(known && slices.EqualFunc(keys, r.last.keys, bytes.Equal)) {
		if known {
			r.lg.Info("gossip keys changed", zap.Int("keys", len(keys)))
			r.warnOnly(reasonKey+"/", nil)
		}
		r.last, err = derive(keys)
	}
	return r.last, err
}

// tls is what two processes show each other in a mesh without TLS: that they have a key in common.
func (r *keyring) tls() TLS {
	return TLS{
		Certificate: func() (*tls.Certificate, error) { d, err := r.now(); return d.own, err },
		Authorities: func() (*x509.CertPool, error) { d, err := r.now(); return d.all, err },
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
