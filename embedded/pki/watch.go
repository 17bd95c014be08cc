package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"holdfast/durable"
)

// File is one of the operator's files: a certificate with its chain to the authority, or a bundle of authorities.
type File struct {
	Name string // such as "server", "peer", "clients-ca", for series and messages; unique
	Path string
	Key  string // file of the private key; "" if there is none to check
}

// watched is what was found in a file.
type watched struct {
	File
	certs []*x509.Certificate
	err   error
}

// watch reads the operator's files. It changes nothing.
func (k *Keeper) watch() {
	k.looking.Lock()
	defer k.looking.Unlock()
	before := k.now().watched
	var found []watched
	for _, f := range k.id.Watched {
		w := watched{File: f}
		if w.certs, w.err = f.read(); w.err != nil {
			k.series.failures.Inc()
		}
		said := slices.ContainsFunc(before, func(b watched) bool {
			return b.Name == w.Name && b.err != nil && w.err != nil && b.err.Error() == w.err.Error()
		})
		if w.err != nil && !said {
			k.lg.Warn("certificate could not be read", zap.String("name", w.Name), zap.Error(w.err))
		}
		found = append(found, w)
	}
	k.mu.Lock()
	k.have.watched = found
	k.mu.Unlock()
}

func (f File) read() ([]*x509.Certificate, error) {
	if f.Key != "" {
		if _, err := tls.LoadX509KeyPair(f.Path, f.Key); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", f.Path, f.Key, err)
		}
	}
	text, err := durable.Read(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	certs, err := CertificatesIn(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return certs, nil
}
