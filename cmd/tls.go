package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

func newTLSCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tls",
		Short: "Make, show and issue certificates",
	}
	return group(c, newTLSInitCommand(), newTLSShowCommand(), newTLSClientCommand(), newTLSForgetCommand(),
		newTLSRotateCommand(), newTLSBundleCommand(), newTLSExportCommand())
}

func newTLSInitCommand() *cobra.Command {
	life, dryRun := pki.Default().CALife, false
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Make the two certificate authorities of a cluster, for tls.mode ca",
		Long: "Make the two certificate authorities of a cluster, for tls.mode ca: etcd-clients-ca.crt and .key, etcd-peers-ca.crt and\n" +
			".key in DIR, as kops names them. What is there is never overwritten.\n\n" +
			"Copy DIR to every node by a way that nobody listens on, with its modes (0700, and 0600 for the keys), and set tls.ca-dir\n" +
			"to it. Each node issues and renews its own certificates then. Clients need etcd-clients-ca.crt, to know the servers,\n" +
			"and a certificate (`holdfast tls client`). Whoever has a key can make a certificate that lets him in.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atLeast("life", time.Hour, life); err != nil {
				return err
			}
			files, err := makeAuthorities(args[0], life)
			if err != nil {
				return err
			}
			if dryRun {
				return show.NothingChanged(c.OutOrStdout(), fmt.Sprintf("would write %s.crt and .key, %s.crt and .key into %s",
					config.GivenClientsCA, config.GivenPeersCA, args[0]))
			}
			if err := writeFresh(args[0], files); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote the clients' and the peers' authority, with their keys, into %s\n\n"+
				"next: copy the directory to every node (the keys with mode 0600), and set on each\n\n  tls: {mode: ca, ca-dir: %s}\n\n"+
				"for a client: holdfast tls client NAME --to DIR\n", args[0], config.Abs(args[0]))
			return err
		},
	}
	c.Flags().Var(&durationFlag{&life}, "life", "how long they are valid")
	addDryRun(c.Flags(), &dryRun)
	return c
}

// makeAuthorities makes both authorities, as files that are to be written into dir.
func makeAuthorities(dir string, life time.Duration) ([]freshFile, error) {
	clients, err := pki.NewAuthority(config.GivenClientsCA, life)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	peers, err := pki.NewAuthority(config.GivenPeersCA, life)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return authorityFiles(dir, pki.Authorities{Clients: clients, Peers: peers})
}

// clientName bounds what `tls client` makes a file name of. It is the user where etcd's authentication is on.
var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:-]{0,63}$`)

func newTLSClientCommand() *cobra.Command {
	to, life, dryRun := "", 365*24*time.Hour, false
	c := &cobra.Command{
		Use:   "client NAME --to DIR",
		Short: "Issue a client's certificate (tls.mode ca and auto)",
		Long: "Issue a client's certificate (tls.mode ca and auto): NAME.crt, NAME.key and ca.crt, which the client needs to know the\n" +
			"servers. It lets its holder read and write everything.\n\n" +
			"NAME is the certificate's common name. Where etcd's own authentication is on, it is the user: what a certificate for\n" +
			"root may do is everything, and one for a user that etcd does not know may do nothing.\n\n" +
			"It is not renewed by itself. Its end is kept in the backup store, and the nodes tell of it from 30 days before,\n" +
			"until there is a later one of NAME.\n\n" +
			"The key of the clients' authority must be here: run it on a node, or with the node's configuration.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if !clientName.MatchString(name) {
				return fmt.Errorf("NAME: must be 1–64 of letters, digits and . _ @ : -, beginning with one of the first two, got %q", name)
			}
			if to == "" {
				return errors.New("--to: must be a directory, got none")
			}
			if err := atLeast("life", time.Minute, life); err != nil {
				return err
			}
			l, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			issued, err := certificates.Issue(c.Context(), l.Config, name, life)
			if err != nil {
				return err
			}
			files := []freshFile{{filepath.Join(to, name+".crt"), issued.Certificate, 0o644},
				{filepath.Join(to, name+".key"), issued.Key, 0o600}}
			if err := absent(files); err != nil {
				return err
			}
			if dryRun {
				return show.NothingChanged(c.OutOrStdout(),
					fmt.Sprintf("would write %s, %s and ca.crt", files[0].path, files[1].path))
			}
			if err := writeFresh(to, files); err != nil {
				return err
			}
			caFile := filepath.Join(to, "ca.crt")
			if err := os.WriteFile(caFile, issued.CA, 0o644); err != nil { //nolint:gosec // no secret, and the newest is the right one
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s, %s and %s\n", files[0].path, files[1].path, caFile)
			if err != nil {
				return err
			}
			if err := issued.Track(c.Context(), l.Config, name); err != nil {
				fmt.Fprintf(c.ErrOrStderr(),
					"warning: the certificate is not tracked, so that nothing tells before it ends: %v\n", err)
			}
			return nil
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&to, "to", "", "the `directory` to write to")
	c.Flags().Var(&durationFlag{&life}, "life", "how long it is valid; never longer than the authority")
	addDryRun(c.Flags(), &dryRun)
	return c
}

func newTLSForgetCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "forget NAME",
		Short: "Forget the certificates that were issued to a client, so that nothing tells of their end any more",
		Long: "Forget the certificates that were issued to a client, so that nothing tells of their end any more: it is\n" +
			"gone, or gets its certificates elsewhere now. They stay good until they end. Nodes follow within ten\n" +
			"minutes.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			store, err := node.OpenStore(c.Context(), l.Config)
			if err != nil {
				return fmt.Errorf("snapshot.store: %w", err)
			}
			known := &authorities.Issued{Store: store, Cluster: l.Config.Cluster.Name}
			all, err := known.Look(c.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(r authorities.Client) bool { return r.Name == args[0] }) {
				return fmt.Errorf("no certificate of %s is known: `holdfast tls show` lists them", args[0])
			}
			if dryRun {
				return show.NothingChanged(c.OutOrStdout(), "would forget the certificates of "+args[0])
			}
			if err := known.Forget(c.Context(), func(r authorities.Client) bool { return r.Name == args[0] }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "forgot the certificates of %s\n", args[0])
			return err
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	addDryRun(c.Flags(), &dryRun)
	return c
}
