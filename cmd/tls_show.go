package cmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// shownCertificate is one certificate in a file of the configuration, or why the file has none.
type shownCertificate struct {
	Key         string    `json:"key"` // of the configuration
	File        string    `json:"file"`
	Subject     string    `json:"subject,omitempty"`
	Names       []string  `json:"names,omitempty"` // host names and IP addresses
	Issuer      string    `json:"issuer,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"` // as holdfast names authorities
	NotBefore   time.Time `json:"not_before,omitzero"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	Expired     bool      `json:"expired,omitempty"`
	Missing     bool      `json:"missing,omitempty"` // it is not issued yet
	Error       string    `json:"error,omitempty"`
}

// shownTLS is the answer of `holdfast tls show`.
type shownTLS struct {
	Mode         string                 `json:"mode"`
	Certificates []shownCertificate     `json:"certificates"`
	Rotation     *health.RotationStatus `json:"rotation,omitempty"` // while one is open
	Issued       []authorities.Client   `json:"issued,omitempty"`   // to clients, the last of each name
	Notes        []string               `json:"notes,omitempty"`    // what could not be found out, and why
	asked        bool                   // a node has told of the rotation
}

func newTLSShowCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every certificate that the configuration names, when it ends, and the rotation of the authorities",
		Long: "Show every certificate that the configuration names, and when it ends: the node's own, and authorities.\n" +
			"With tls.mode auto also the rotation of the authorities that is open: since when, what it waits for, what\n" +
			"comes next. The node on this machine is asked for that; if it does not answer, the store is. The store also\n" +
			"knows the certificates that `holdfast tls client` has issued.\n\n" +
			"Exit code: 0, or 1 if a certificate of the configuration has expired or cannot be read.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := format.check(); err != nil {
				return err
			}
			l, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			now := time.Now()
			shown := certificates.Look(c.Context(), l.Config, now)
			err = format.write(c, shown, func(w io.Writer) error { return shown.Write(w, now) })
			if err != nil {
				return err
			}
			for _, s := range shown.Certificates {
				if s.Expired || s.Error != "" {
					return exitCode(1)
				}
			}
			return nil
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	format.add(c.Flags())
	return c
}

// lookAtRotation asks the node on this machine for the rotation that is open. If it does not answer, the edition in
// the store or in this node's copy tells all but what is waited for.
func (s *shownTLS) lookAtRotation(ctx context.Context, cfg config.Config, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, authorities.StorePatience)
	defer cancel()
	node, err := control.Open(cfg.Control)
	if err == nil {
		var status health.ClusterStatus
		if err = node.Get(ctx, http.MethodGet, "/status", &status); err == nil {
			s.Rotation, s.asked = status.Rotation, true
			return
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("what a rotation waits for is not known: %v", err))
	store, err := openStore(ctx, cfg)
	if err == nil {
		var e *authorities.Edition
		if e, _, err = authorities.New(editionOptions(cfg), store, zap.NewNop()).Show(ctx); err == nil {
			if s.Rotation = e.Rotation(authorities.View{}, now); s.Rotation != nil {
				s.Rotation.Waits = "is not known here: no node answers"
			}
			return
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("whether a rotation is open is not known: %v", err))
}

// lookAtIssued asks the store for the certificates that `holdfast tls client` has issued.
func (s *shownTLS) lookAtIssued(ctx context.Context, cfg config.Config) {
	ctx, cancel := context.WithTimeout(ctx, authorities.StorePatience)
	defer cancel()
	store, err := openStore(ctx, cfg)
	if err == nil {
		s.Issued, err = (&authorities.Issued{Store: store, Cluster: cfg.Cluster.Name}).Look(ctx)
	}
	if err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("not all certificates that were issued to clients are known: %v", err))
	}
}

// showCertificates reads the certificates, in the order of what they are for.
func showCertificates(cfg config.Config, now time.Time) []shownCertificate {
	all := []shownCertificate{}
	for _, f := range certificateFiles(cfg) {
		if f.Kind == health.Secret {
			continue
		}
		text, err := os.ReadFile(f.Path)
		var certs []*x509.Certificate
		if err == nil {
			certs, err = pki.CertificatesIn(text)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && cfg.TLS.Issues():
			all = append(all, shownCertificate{Key: f.Key, File: f.Path, Missing: true})
		case err != nil:
			all = append(all, shownCertificate{Key: f.Key, File: f.Path, Error: err.Error()})
		}
		for _, cert := range certs {
			all = append(all, shownCertificate{
				Key: f.Key, File: f.Path, Subject: cert.Subject.String(), Names: namesOf(cert), Issuer: cert.Issuer.String(), Fingerprint: pki.Fingerprint(cert),
				NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, Expired: now.After(cert.NotAfter),
			})
		}
	}
	return all
}

func namesOf(c *x509.Certificate) []string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, net.IP.String(ip))
	}
	return names
}

// write prints all of it for people.
func (s shownTLS) write(w io.Writer, now time.Time) error {
	if err := writeCertificates(w, s.Mode, s.Certificates, now); err != nil {
		return err
	}
	var b strings.Builder
	switch {
	case s.Rotation != nil:
		fmt.Fprintf(&b, "\n%s", s.Rotation.Text(now))
	case s.Mode == pki.ModeAuto && s.asked:
		fmt.Fprintln(&b, "\nno rotation of the authorities is open")
	}
	b.WriteString(issuedText(s.Issued, now))
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCertificates(w io.Writer, mode string, all []shownCertificate, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "tls.mode %s: the configuration names no certificates\n", mode)
		return err
	}
	t := newTable("KEY", "SUBJECT", "ISSUER", "NOT AFTER", "LEFT", "FILE")
	for _, s := range all {
		row := table.Row{s.Key, strings.TrimSpace(strings.Join(append([]string{s.Subject}, s.Names...), "\n")), s.Issuer, s.NotAfter.UTC().Format(time.RFC3339), health.Age(s.NotAfter, now), s.File}
		switch {
		case s.Error != "":
			row = table.Row{s.Key, "cannot be read: " + s.Error, "-", "-", "-", s.File}
		case s.Missing:
			row = table.Row{s.Key, "not issued yet: the node has not run", "-", "-", "-", s.File}
		case s.Expired:
			row[4] = "EXPIRED"
		}
		t.AppendRow(row)
	}
	_, err := fmt.Fprintf(w, "tls.mode %s\n\n%s\n", mode, t.Render())
	return err
}

// issuedText is a table of the certificates for people, "" without any.
func issuedText(all []authorities.Client, now time.Time) string {
	if len(all) == 0 {
		return ""
	}
	t := newTable("CLIENT", "FINGERPRINT", "AUTHORITY", "NOT AFTER", "LEFT")
	for _, r := range all {
		left := health.Age(r.NotAfter, now)
		if !now.Before(r.NotAfter) {
			left = "EXPIRED"
		}
		t.AppendRow([]any{r.Name, r.Fingerprint, r.Authority, r.NotAfter.UTC().Format(time.RFC3339), left})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\ncertificates issued to clients, the last of each name\n\n%s\n", t.Render())
	for _, f := range health.JudgeIssued(authorities.IssuedTo(all), now) {
		fmt.Fprintf(&b, "%s: %s. %s\n", f.Severity, f, f.Do)
	}
	return b.String()
}
