package cmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
)

func newTLSRotateCommand() *cobra.Command {
	var now, dropOld, dryRun, yes bool
	c := asking(&cobra.Command{
		Use:   "rotate-ca [--now | --drop-old]",
		Short: "Replace the certificate authorities of tls.mode auto",
		Args: notBoth("now", "drop-old",
			"the old authorities can be dropped only after the new ones sign and every node has renewed its certificates"),
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		rotate := func(dry bool) (a node.Rotated, err error) {
			err = client.Get(c.Context(), "POST /tls/rotate", &a, control.Args{"now": now, "drop-old": dropOld, "dry": dry})
			return a, err
		}
		would, err := rotate(true)
		if err != nil {
			return fmt.Errorf("rotate the certificate authorities: %w", err)
		}
		if len(would.Refuses) > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "what this refuses:\n- %s\n", strings.Join(would.Refuses, "\n- "))
		}
		if dryRun {
			return sayDry(c, "would store %s", would.Meaning)
		}
		if !yes {
			fmt.Fprintf(c.ErrOrStderr(), "%s.\n", would.Meaning)
			if err := confirm(c.Context(), c, "Rotate?"); err != nil {
				return err
			}
		}
		done, err := rotate(false)
		if err != nil {
			return fmt.Errorf("rotate the certificate authorities: %w", err)
		}
		return say(c, "stored %s\n", done.Meaning)
	})
	c.Flags().BoolVar(&now, "now", false,
		"let the new authorities sign as soon as all members trust them, whatever clients do")
	c.Flags().BoolVar(&dropOld, "drop-old", false, "after a rotation: refuse clients' certificates of the old authorities")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return addDryRun(c, &dryRun)
}

func newTLSExportCommand() *cobra.Command {
	var dryRun bool
	c := configured(&cobra.Command{
		Use:   "export DIR",
		Short: "Write the authorities of tls.mode auto, with their keys, to a directory",
		Args:  cobra.ExactArgs(1),
	}, func(c *cobra.Command, loaded *config.Loaded, args []string) error {
		cfg := loaded.Config
		if cfg.TLS.Mode != pki.ModeAuto {
			return fmt.Errorf("tls.mode is %s: only with %s are there authorities that holdfast has made", cfg.TLS.Mode,
				pki.ModeAuto)
		}
		e, problem, err := node.ShowEdition(c.Context(), cfg)
		if err != nil {
			return fmt.Errorf("read the certificate authorities: %w", err)
		}
		if problem != nil {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %v\n", problem)
		}
		files, err := certificates.AuthorityFiles(args[0], e.Authorities())
		if err != nil {
			return err
		}
		what := fmt.Sprintf("edition %d of the certificate authorities (%s) to %s", e.Serial, e.Phase, args[0])
		if dryRun {
			return sayDry(c, "would write %s", what)
		}
		if err := certificates.WriteFresh(args[0], files); err != nil {
			return err
		}
		return say(c, "wrote %s\n", what)
	})
	return addDryRun(c, &dryRun)
}

func newTLSBundleCommand() *cobra.Command {
	var out string
	var peers, dryRun bool
	c := configured(&cobra.Command{
		Use:   "bundle",
		Short: "Write the authorities' certificates, without keys, to hand out to clients",
		Args:  notBoth("out", "peers", "with --out both bundles are written"),
	}, func(c *cobra.Command, loaded *config.Loaded, _ []string) error {
		a, problem, err := certificates.Trusted(c.Context(), loaded.Config)
		if err != nil {
			return fmt.Errorf("read the certificate authorities: %w", err)
		}
		if problem != nil {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %v\n", problem)
		}
		clients, members := pki.EncodeCertificates(a.Clients.Bundle...), pki.EncodeCertificates(a.Peers.Bundle...)
		if peers && len(members) == 0 {
			return errors.New("--peers: the peers' authorities are not known here: run it on a node")
		}
		if out == "" {
			text := clients
			if peers {
				text = members
			}
			if dryRun {
				return sayDry(c, "would write the certificates to standard output")
			}
			return say(c, "%s", text)
		}
		files := []certificates.FreshFile{
			{Path: filepath.Join(out, config.GivenClientsCA+".crt"), Text: clients, Mode: 0o644}}
		what := files[0].Path
		if len(members) > 0 {
			files = append(files, certificates.FreshFile{Path: filepath.Join(out, config.GivenPeersCA+".crt"),
				Text: members, Mode: 0o644})
			what += " and " + files[1].Path
		}
		if err := certificates.Absent(files); err != nil {
			return err
		}
		if dryRun {
			return sayDry(c, "would write %s", what)
		}
		if err := certificates.WriteFresh(out, files); err != nil {
			return err
		}
		return say(c, "wrote %s\n", what)
	})
	c.Flags().StringVar(&out, "out", "", "write both bundles to this `directory` instead of standard output")
	c.Flags().BoolVar(&peers, "peers", false,
		"write the peers' authorities, which no client needs, instead of the clients'")
	return addDryRun(c, &dryRun)
}
