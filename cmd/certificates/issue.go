package certificates

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/durable"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// public replaces a file and keeps its mode. A new file may be read by everyone.
var public = durable.File{Keep: 0o644}

// Issued is a client's certificate, its key and the servers' authorities, in PEM. For an observer or an operator, all
// of it is in Certificate.
type Issued struct {
	Certificate, Key, CA []byte
	Renewable            bool // a node may renew it for its holder
	holder               pki.Holder
	leaf                 *x509.Certificate
	authority            *x509.Certificate // that signed it
}

// Issue issues a certificate to a client, for the key of has, or for a new key if has is nil. For an observer or an
// operator, it issues the text of one file.
func Issue(ctx context.Context, cfg config.Config, h pki.Holder, name string, has *tls.Certificate,
	life time.Duration) (i Issued, err error) {
	source, known, err := issuer(ctx, cfg)
	if err != nil {
		return i, err
	}
	i.holder, i.authority = h, known.Peers.Primary
	if h != pki.Client {
		i.Certificate, err = pki.IssuePaper(known, h, cfg.Zone(), name, life, time.Now())
	} else {
		i.authority, i.CA = known.Clients.Primary, pki.EncodeCertificates(known.Clients.Bundle...)
		var k *pki.Keeper
		if k, err = pki.New(cfg.TLS, node.TLSIdentity(cfg), source, zap.NewNop(), prometheus.NewRegistry()); err != nil {
			return i, err
		}
		var key crypto.Signer
		if has != nil {
			key, _ = has.PrivateKey.(crypto.Signer)
		}
		i.Certificate, i.Key, err = k.Client(ctx, name, key, life)
	}
	if err != nil {
		return i, err
	}
	certs, err := pki.CertificatesIn(i.Certificate)
	if err == nil {
		i.leaf = certs[0]
	}
	return i, err
}

// issuer returns the authorities with which a command issues certificates, and their source.
func issuer(ctx context.Context, cfg config.Config) (source pki.Source, known pki.Authorities, err error) {
	if !cfg.TLS.Issues() {
		return nil, known, fmt.Errorf("tls.mode is %s: holdfast issues certificates with %s and %s alone", cfg.TLS.Mode,
			pki.ModeCA, pki.ModeAuto)
	}
	store, err := node.OpenStore(ctx, cfg)
	if err != nil {
		return nil, known, err
	}
	source = node.AuthoritySource(cfg, store)
	if known, err = source.Authorities(ctx); err != nil {
		return nil, known, fmt.Errorf("read the certificate authorities: %w", err)
	}
	return source, known, nil
}

// Track records the certificate in the store, so that the nodes warn before it expires. If it cannot be recorded, Track
// prints a warning.
func (i Issued) Track(ctx context.Context, cfg config.Config, name string, warn io.Writer) {
	if err := i.track(ctx, cfg, name); err != nil {
		text := "nothing tells before it ends"
		if i.Renewable {
			text += ", and no node renews it"
		}
		fmt.Fprintf(warn, "warning: the certificate is not tracked, so that %s: %v\n", text, err)
	}
}

func (i Issued) track(ctx context.Context, cfg config.Config, name string) error {
	known, err := node.OpenIssued(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*authorities.StorePatience)
	defer cancel()
	of := health.IssuedClient{Role: string(i.holder), Name: name, Renewable: i.Renewable}
	if i.authority != nil {
		of.Authority = pki.Fingerprint(i.authority)
	}
	return known.Note(ctx, of, i.leaf, time.Now())
}

// Trusted returns the authorities of a configuration. It asks a node only if control.remote.address names one, and that
// node gives the clients' authorities alone. Authorities from files or from a node have no keys. problem is a warning
// about authorities that could be read.
func Trusted(ctx context.Context, cfg config.Config) (a pki.Authorities, problem, err error) {
	switch {
	case cfg.Control.Remote.Address != "":
		a.Clients, err = told(ctx, cfg.Control)
		return a, nil, err
	case cfg.TLS.Mode == pki.ModeCA:
		a, err = pki.FileSource{ClientCAFile: cfg.TLS.ClientCAFile, PeerCAFile: cfg.TLS.PeerCAFile}.Authorities(ctx)
		return a, nil, err
	case cfg.TLS.Mode == pki.ModeAuto:
		e, problem, err := node.ShowEdition(ctx, cfg)
		if err != nil {
			return a, nil, err
		}
		return e.Authorities(), problem, nil
	case cfg.TLS.Mode == pki.ModeFiles && cfg.Etcd.TrustedCAFile != "":
		return ofFiles(cfg)
	}
	return a, nil, fmt.Errorf("tls.mode is %s, and neither etcd.trusted-ca-file nor control.remote.address is set: "+
		"there are no authorities to tell of",
		cfg.TLS.Mode)
}

// told asks the node at control.remote.address for the clients' authorities.
func told(ctx context.Context, c config.Control) (pki.Authority, error) {
	client, err := control.Open(c)
	if err != nil {
		return pki.Authority{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var fresh node.Fresh
	if err := client.Get(ctx, "GET /tls/client", &fresh); err != nil {
		return pki.Authority{}, err
	}
	return pki.ParseAuthority([]byte(fresh.Authorities), nil)
}

// ofFiles returns the authorities of tls.mode files. etcd.trusted-ca-file names those that the servers trust. Clients
// must trust those that signed the server's certificate, so ofFiles returns an error unless they are the same.
func ofFiles(cfg config.Config) (a pki.Authorities, problem, err error) {
	if a.Clients, err = pki.LoadAuthority(cfg.Etcd.TrustedCAFile, ""); err != nil {
		return a, nil, fmt.Errorf("etcd.trusted-ca-file: %w", err)
	}
	if cfg.Etcd.PeerTrustedCAFile != "" {
		if a.Peers, err = pki.LoadAuthority(cfg.Etcd.PeerTrustedCAFile, ""); err != nil {
			return a, nil, fmt.Errorf("etcd.peer-trusted-ca-file: %w", err)
		}
	}
	text, err := os.ReadFile(cfg.Etcd.CertFile)
	if err != nil {
		return a, nil, fmt.Errorf("etcd.cert-file: %w", err)
	}
	chain, err := pki.CertificatesIn(text)
	if err != nil {
		return a, nil, fmt.Errorf("etcd.cert-file %s: %w", cfg.Etcd.CertFile, err)
	}
	by := x509.VerifyOptions{Roots: pki.Pool(a.Clients.Bundle...), Intermediates: pki.Pool(chain[1:]...)}
	if _, err := chain[0].Verify(by); err != nil {
		return a, nil, fmt.Errorf("etcd.cert-file %s is not signed by an authority of etcd.trusted-ca-file, so that "+
			"clients need another bundle: %w",
			cfg.Etcd.CertFile, err)
	}
	return a, nil, nil
}
