package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/pki"
)

// Ask asks a node to renew the certificate, if it is due, and prints the result.
func (f Files) Ask(ctx context.Context, out io.Writer, address string, has *tls.Certificate, dryRun bool) error {
	due, renewed, err := f.Refresh(ctx, address, true, !dryRun)
	if err != nil {
		return err
	}
	return f.told(out, has, due, renewed, dryRun)
}

// paperKeys are the keys of the configuration that name the file of a holder who has one.
var paperKeys = map[pki.Holder]string{pki.Observer: "gossip.observer-file", pki.Operator: "tls.operator-file"}

// Write writes the certificate, the key and the authorities of a client, or the file of another holder. The certificate
// and the key must not exist. Existing authorities are replaced only if all of them are among the new ones.
func (f Files) Write(out io.Writer, i Issued, dryRun bool) (bool, error) {
	files := []FreshFile{{f.Certificate, i.Certificate, 0o644}, {f.Key, i.Key, 0o600}}
	would, wrote := fmt.Sprintf("%s, %s and ca.crt", f.Certificate, f.Key),
		fmt.Sprintf("%s, %s and %s", f.Certificate, f.Key, f.Authorities)
	if key := paperKeys[f.Holder]; key != "" {
		files = []FreshFile{{f.Certificate, i.Certificate, 0o600}}
		would, wrote = f.Certificate, fmt.Sprintf("%s: on the machine that it is for, set %s to it", f.Certificate, key)
	}
	err := Absent(files)
	if err == nil && f.Holder == pki.Client {
		err = f.mayReplace(i.CA)
	}
	if err != nil {
		return false, err
	}
	if dryRun {
		return false, show.NothingChanged(out, "would write "+would)
	}
	err = WriteFresh(filepath.Dir(f.Certificate), files)
	if err == nil && f.Holder == pki.Client {
		err = public.Write(f.Authorities, i.CA)
	}
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprintln(out, "wrote", wrote)
	return true, err
}

// mayReplace returns an error if the file of the authorities has one that is not among the new ones, such as that of
// Kubernetes in its own directory.
func (f Files) mayReplace(authorities []byte) error {
	text, err := os.ReadFile(f.Authorities)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var there, all []*x509.Certificate
	if err == nil {
		there, err = pki.CertificatesIn(text)
	}
	if err == nil {
		all, err = pki.CertificatesIn(authorities)
	}
	if err != nil {
		return fmt.Errorf("%s exists, and is not overwritten: name another directory: %w", f.Authorities, err)
	}
	for _, c := range there {
		if !slices.ContainsFunc(all, c.Equal) {
			return fmt.Errorf("%s has an authority that this cluster does not have (%s), and is not overwritten: name "+
				"another directory; if it is a former one of this cluster, run this with --renew for a client that has its "+
				"certificate there, or delete the file", f.Authorities, c.Subject)
		}
	}
	return nil
}

// Renew replaces the authorities, and the certificate if it is due. The authorities come first, because a server may
// already have a certificate of a new one.
func (f Files) Renew(out io.Writer, i Issued, has *tls.Certificate, dryRun bool) (bool, error) {
	due := pki.Due(has.Leaf, i.authority, time.Now())
	if !dryRun {
		if err := public.Write(f.Authorities, i.CA); err != nil {
			return false, err
		}
	}
	renewed := due && !dryRun
	if renewed {
		if err := public.Write(f.Certificate, i.Certificate); err != nil {
			return false, err
		}
	}
	return renewed, f.told(out, has, due, renewed, dryRun)
}

// told prints whether the certificate was renewed.
func (f Files) told(out io.Writer, has *tls.Certificate, due, renewed, dryRun bool) error {
	good := fmt.Sprintf("%s is good until %s", f.Certificate, has.Leaf.NotAfter.UTC().Format(time.RFC3339))
	switch {
	case dryRun && due:
		return show.NothingChanged(out, good+": it would be renewed")
	case dryRun:
		return show.NothingChanged(out, good+": it would not be renewed yet")
	case renewed:
		good = fmt.Sprintf("renewed %s; its key is the same", f.Certificate)
	default:
		good += ": not renewed yet"
	}
	_, err := fmt.Fprintln(out, good)
	return err
}
