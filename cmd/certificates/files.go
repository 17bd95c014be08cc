package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
)

// Files are where a client's certificate, its key and the servers' authorities are.
type Files struct{ Name, Certificate, Key, Authorities string }

// FilesOf are those of a client in a directory: NAME.crt, NAME.key and ca.crt.
func FilesOf(dir, name string) Files {
	return Files{name, filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), filepath.Join(dir, "ca.crt")}
}

// Read reads the certificate and the key that are there.
func (f Files) Read() (*tls.Certificate, error) {
	has, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: an operator issues the first certificate of %s, on a node, with `holdfast tls client`", err,
			f.Name)
	case err != nil:
		return nil, fmt.Errorf("read %s and %s: %w", f.Certificate, f.Key, err)
	case has.Leaf.Subject.CommonName != f.Name:
		return nil, fmt.Errorf("%s is a certificate of %q, not of %s", f.Certificate, has.Leaf.Subject.CommonName, f.Name)
	}
	return &has, nil
}

// askTime bounds a question to a node, which may have to wait for the store.
const askTime = 20 * time.Second

// Refresh asks a node for the present authorities and, where it is time and issue says so, for another certificate, and
// writes what differs: the authorities first, for a server may have a certificate of a new one already. Who asks is
// the present certificate. due says that it is, or was, time.
func (f Files) Refresh(ctx context.Context, address string, issue, write bool) (due, renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ask := func(method string) (told node.Fresh, err error) {
		who := config.Remote{Address: address, CertFile: f.Certificate, KeyFile: f.Key, CAFile: f.Authorities}
		client, err := control.Open(config.Control{Remote: who})
		if err == nil {
			err = client.Get(ctx, method, "/tls/client", &told)
		}
		if err != nil {
			return told, err
		}
		if _, err := pki.ParseAuthority([]byte(told.Authorities), nil); err != nil {
			return told, fmt.Errorf("the authorities that %s tells: %w", address, err)
		}
		if write {
			err = replace(f.Authorities, []byte(told.Authorities))
		}
		return told, err
	}
	told, err := ask(http.MethodGet)
	if err != nil || !told.Due || !issue || !write {
		return told.Due, false, err
	}
	if told, err = ask(http.MethodPost); err != nil {
		return true, false, err
	}
	if err := f.fits(told); err != nil {
		return true, false, fmt.Errorf("the certificate that %s has issued: %w", address, err)
	}
	return true, true, replace(f.Certificate, []byte(told.Certificate))
}

// fits says why a certificate must not take the place of the present one.
func (f Files) fits(told node.Fresh) error {
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(told.Certificate), key)
	if err != nil {
		return err
	}
	if cn := pair.Leaf.Subject.CommonName; cn != f.Name {
		return fmt.Errorf("it is of %q, not of %s", cn, f.Name)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(told.Authorities))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// replace replaces a file that is not so already.
func replace(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return Public.Write(path, text)
}
