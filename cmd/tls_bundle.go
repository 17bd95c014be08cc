package cmd

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/embedded/pki"
)

func newTLSBundleCommand() *cobra.Command {
	var out string
	var peers, dryRun bool
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Write the authorities' certificates, without keys, to hand out to clients",
		Long: "Write the authorities' certificates, without keys: clients need them to verify the servers. Hand these\n" +
			"out, and not the output of `holdfast tls export`, which contains the keys as well.\n\n" +
			"Without --out, the clients' authorities go to standard output; with --peers, the peers'. With --out both\n" +
			"go to a directory, as etcd-clients-ca.crt and etcd-peers-ca.crt; no file is overwritten. Clients need\n" +
			"etcd-clients-ca.crt. While a rotation is open, it contains the old and the new authority. kube-apiserver\n" +
			"reads it only when it starts (--etcd-cafile).\n\n" +
			"With tls.mode auto they are read from the backup store or, if it does not answer, from this node's copy;\n" +
			"with ca and files, from the configured files. With control.remote.address, a node on another machine\n" +
			"gives the clients' authorities to anyone with a client's certificate.",
		Args: notBoth("out", "peers", "with --out both bundles are written"),
		RunE: configured(func(c *cobra.Command, loaded *config.Loaded, _ []string) error {
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
		}),
	}
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&out, "out", "", "write both bundles to this `directory` instead of standard output")
	c.Flags().BoolVar(&peers, "peers", false, "write the peers' authorities, which no client needs, instead of the clients'")
	addDryRun(c.Flags(), &dryRun)
	return c
}
