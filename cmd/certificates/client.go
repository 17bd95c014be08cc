package certificates

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"holdfast/cmd/show"
)

// Ask asks a node to renew the certificate, if it is due, and prints the result.
func (f Files) Ask(ctx context.Context, out io.Writer, address string, has *tls.Certificate, dryRun bool) error {
	due, renewed, err := f.Refresh(ctx, address, true, !dryRun)
	if err != nil {
		return err
	}
	return f.told(out, has, due, renewed, dryRun)
}

// Write writes the certificate, the key and the authorities of a client. The certificate and the key must not exist;
// existing authorities are replaced by the newer ones.
func (f Files) Write(out io.Writer, i Issued, dryRun bool) (bool, error) {
	files := []FreshFile{{f.Certificate, i.Certificate, 0o644}, {f.Key, i.Key, 0o600}}
	if err := Absent(files); err != nil {
		return false, err
	}
	if dryRun {
		return false, show.NothingChanged(out, fmt.Sprintf("would write %s, %s and ca.crt", f.Certificate, f.Key))
	}
	if err := WriteFresh(filepath.Dir(f.Certificate), files); err != nil {
		return false, err
	}
	if err := public.Write(f.Authorities, i.CA); err != nil {
		return false, err
	}
	_, err := fmt.Fprintf(out, "wrote %s, %s and %s\n", f.Certificate, f.Key, f.Authorities)
	return true, err
}

// Renew replaces the authorities, and the certificate if it is due. The authorities come first, because a server may
// already have a certificate of a new one.
func (f Files) Renew(out io.Writer, i Issued, has *tls.Certificate, dryRun bool) (bool, error) {
	due := i.due(has.Leaf, time.Now())
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
