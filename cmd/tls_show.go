package cmd

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"holdfast/embedded/pki"
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

func newTLSShowCommand() *cobra.Command {
	output := "table"
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every certificate that the configuration names, and when it ends",
		Long: "Show every certificate that the configuration names, and when it ends: the node's own, and the authorities. No node is\n" +
			"asked. Exit code: 0, or 1 if one has expired or cannot be read.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			l, err := Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			now := time.Now()
			all := showCertificates(l.Config, now)
			if output == "json" {
				err = writeIndented(c.OutOrStdout(), all)
			} else {
				err = writeCertificates(c.OutOrStdout(), l.Config.TLS.Mode, all, now)
			}
			if err != nil {
				return err
			}
			for _, s := range all {
				if s.Expired || s.Error != "" {
					return exitCode(1)
				}
			}
			return nil
		},
	}
	addClientFlags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", output, "`format`: table or json")
	return c
}

// showCertificates reads the certificates, in the order of what they are for.
func showCertificates(cfg Config, now time.Time) []shownCertificate {
	all := []shownCertificate{}
	for _, f := range certificateFiles(cfg) {
		if f.Kind == secret {
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

func writeCertificates(w io.Writer, mode string, all []shownCertificate, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "tls.mode %s: the configuration names no certificates\n", mode)
		return err
	}
	t := newTable("KEY", "SUBJECT", "ISSUER", "NOT AFTER", "LEFT", "FILE")
	for _, s := range all {
		row := table.Row{s.Key, strings.TrimSpace(strings.Join(append([]string{s.Subject}, s.Names...), "\n")), s.Issuer, s.NotAfter.UTC().Format(time.RFC3339), age(s.NotAfter, now), s.File}
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
