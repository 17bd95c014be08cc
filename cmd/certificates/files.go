package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/durable"
	"holdfast/embedded/pki"
)

// Files are the paths of a certificate, its key and the servers' authorities, on a machine without a node. A client has
// three files. An observer or an operator has one, a [pki.Paper], with all three in it.
type Files struct {
	Holder pki.Holder
	// Name is the common name that the certificate must have; "" for a paper with any name.
	Name, Certificate, Key, Authorities string
	Zone                                string // CLUSTER.DOMAIN; "" for a client
}

// FilesOf returns the files of a client in a directory: NAME.crt, NAME.key and ca.crt.
func FilesOf(dir, name string) Files {
	return Files{Holder: pki.Client, Name: name, Certificate: filepath.Join(dir, name+".crt"),
		Key:         filepath.Join(dir, name+".key"),
		Authorities: filepath.Join(dir, "ca.crt")}
}

// PaperOf returns the file of an observer or an operator.
func PaperOf(h pki.Holder, path, zone string) Files {
	return Files{Holder: h, Certificate: path, Key: path, Authorities: path, Zone: zone}
}

// Issue returns the command that issues another certificate on a node.
func (f Files) Issue() string {
	if f.Holder == pki.Client {
		return "holdfast tls client " + f.Name + " --to DIR --renewable"
	}
	return fmt.Sprintf("holdfast tls %s NAME --to FILE --renewable", f.Holder)
}

// Read reads the certificate and the key.
func (f Files) Read() (*tls.Certificate, error) {
	var p pki.Paper
	var err error
	if f.Holder != pki.Client {
		p, err = pki.ReadPaper(f.Certificate)
	} else if p.Certificate, err = tls.LoadX509KeyPair(f.Certificate, f.Key); err != nil {
		err = fmt.Errorf("read %s and %s: %w", f.Certificate, f.Key, err)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: an operator issues the first one, on a node, with `%s`", err, f.Issue())
	case err != nil:
		return nil, err
	case f.Name != "" && p.Leaf.Subject.CommonName != f.Name:
		return nil, fmt.Errorf("%s is a certificate of %q, not of %s", f.Certificate, p.Leaf.Subject.CommonName, f.Name)
	}
	if err := f.fitsHolder(p.Leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Certificate, err)
	}
	return &p.Certificate, nil
}

// fitsHolder returns an error if a certificate is not of the kind that f needs. A client's may be any.
func (f Files) fitsHolder(c *x509.Certificate) error {
	if f.Holder == pki.Client {
		return nil
	}
	if h, err := pki.HolderOf(c, f.Zone); err != nil || h != f.Holder {
		return errors.Join(fmt.Errorf("it is no %s's certificate of %s", f.Holder, f.Zone), err)
	}
	return nil
}

// askTime limits a request to a node, which may have to wait for the store.
const askTime = 20 * time.Second

// Refresh asks a node for the current authorities and, if the certificate is due and issue is set, for another one. It
// authenticates with the current certificate. With write it writes what differs: the authorities first, because a
// server may already have a certificate of a new one. due reports whether the certificate was due before the call.
func (f Files) Refresh(ctx context.Context, address string, issue, write bool) (due, renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ask := func(route string) (told node.Fresh, err error) {
		client, err := f.open(address)
		if err == nil {
			err = client.Get(ctx, route, &told)
		}
		if err != nil {
			return told, err
		}
		if _, err := pki.ParseAuthority([]byte(told.Authorities), nil); err != nil {
			return told, fmt.Errorf("the authorities that %s tells: %w", address, err)
		}
		if write {
			err = f.take(node.Fresh{Authorities: told.Authorities})
		}
		return told, err
	}
	told, err := ask("GET /tls/client")
	if err != nil || !told.Due || !issue || !write {
		return told.Due, false, err
	}
	if told, err = ask("POST /tls/client"); err != nil {
		return true, false, err
	}
	if err := f.fits(told); err != nil {
		return true, false, fmt.Errorf("the certificate that %s has issued: %w", address, err)
	}
	return true, true, f.take(told)
}

// open returns a client of a node that authenticates with the current certificate.
func (f Files) open(address string) (*control.Client, error) {
	if f.Holder == pki.Client {
		return control.Open(config.Control{Remote: config.Remote{Address: address, CertFile: f.Certificate, KeyFile: f.Key,
			CAFile: f.Authorities}})
	}
	p, err := pki.ReadPaper(f.Certificate)
	if err != nil {
		return nil, err
	}
	return control.OpenAs(address, pki.MeshName(f.Zone), p.Certificate, p.Pool()), nil
}

// take writes the certificate that a node has sent, or the authorities if it has sent no certificate. A paper gets
// both. A file that has the same content is not written.
func (f Files) take(told node.Fresh) error {
	if f.Holder != pki.Client {
		p, err := pki.ReadPaper(f.Certificate)
		if err != nil {
			return err
		}
		text, err := p.With(told.Certificate, told.Authorities)
		if err != nil {
			return err
		}
		return replace(durable.File{Keep: 0o600}, f.Certificate, text)
	}
	if told.Certificate != "" {
		return replace(public, f.Certificate, []byte(told.Certificate))
	}
	return replace(public, f.Authorities, []byte(told.Authorities))
}

// fits returns an error if a certificate must not replace the current one.
func (f Files) fits(told node.Fresh) error {
	has, err := f.Read()
	if err != nil {
		return err
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(told.Certificate), key)
	if err != nil {
		return err
	}
	next := pair.Leaf
	if cn := next.Subject.CommonName; cn != has.Leaf.Subject.CommonName {
		return fmt.Errorf("it is of %q, not of %s", cn, has.Leaf.Subject.CommonName)
	}
	if err := f.fitsHolder(next); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(told.Authorities))
	_, err = next.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// replace writes a file, unless it already has this content.
func replace(w durable.File, path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return w.Write(path, text)
}
