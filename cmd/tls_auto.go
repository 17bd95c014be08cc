package cmd

import (
	"fmt"
	"net/http"
	"net/url"
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
	c := &cobra.Command{
		Use:   "rotate-ca [--now | --drop-old]",
		Short: "Replace the certificate authorities of tls.mode auto",
		Long: "Replace the certificate authorities of tls.mode auto. This also happens automatically when two thirds of\n" +
			"their life are over. All members keep serving.\n\n" +
			"First every member learns to trust the new authorities. They sign only once half of the old ones'\n" +
			"remaining life is over, so that you have time to give clients the new bundle (`holdfast tls bundle`).\n" +
			"--now, also if given later, ends that time, and clients that do not trust the new authorities then\n" +
			"refuse the servers. When every member presents a new certificate, members no longer trust the old\n" +
			"authority. Clients' certificates of the old authority stay valid until it expires, or until --drop-old.\n\n" +
			"--now and --drop-old first say what will be refused, from when, and which clients are affected.\n" +
			"`holdfast status` and `holdfast tls show` say what the rotation waits for. Run the command on any node\n" +
			"of the cluster.",
		Args: notBoth("now", "drop-old",
			"the old authorities can be dropped only after the new ones sign and every node has renewed its certificates"),
		RunE: asking(func(c *cobra.Command, client *control.Client, _ []string) error {
			rotate := func(dry bool) (a node.Rotated, err error) {
				q := url.Values{"now": {fmt.Sprint(now)}, "drop-old": {fmt.Sprint(dropOld)}, "dry": {fmt.Sprint(dry)}}
				err = client.Get(c.Context(), http.MethodPost, "/tls/rotate?"+q.Encode(), &a)
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
		}),
	}
	addClientFlags(c.Flags())
	c.Flags().BoolVar(&now, "now", false,
		"let the new authorities sign as soon as all members trust them, whatever clients do")
	c.Flags().BoolVar(&dropOld, "drop-old", false, "after a rotation: refuse clients' certificates of the old authorities")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	addDryRun(c.Flags(), &dryRun)
	return c
}

func newTLSExportCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Write the authorities of tls.mode auto, with their keys, to a directory",
		Long: "Write the certificate authorities of tls.mode auto, with their keys, to a directory, in the layout of\n" +
			"tls.ca-dir: etcd-clients-ca.crt and .key, etcd-peers-ca.crt and .key. Clients need `holdfast tls bundle`\n" +
			"instead.\n\n" +
			"They are read from the backup store or, if it does not answer, from this node's copy. No file is\n" +
			"overwritten. Give the keys only to operators: anyone who has one can issue certificates that open\n" +
			"everything.",
		Args: cobra.ExactArgs(1),
		RunE: configured(func(c *cobra.Command, loaded *config.Loaded, args []string) error {
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
		}),
	}
	addClientFlags(c.Flags(), shownForStores...)
	addDryRun(c.Flags(), &dryRun)
	return c
}
