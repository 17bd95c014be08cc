package cmd

import (
	"errors"
	"fmt"
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
		Short: "Create authorities, and issue, renew and show certificates",
	}
	return group(c, newTLSInitCommand(), newTLSShowCommand(), newTLSClientCommand(), newTLSObserverCommand(),
		newTLSOperatorCommand(), newTLSForgetCommand(), newTLSRotateCommand(), newTLSBundleCommand(), newTLSExportCommand())
}

func newTLSInitCommand() *cobra.Command {
	life, dryRun := pki.Default().CALife, false
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Create the two certificate authorities of a cluster, for tls.mode ca",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := atLeast("life", time.Hour, life); err != nil {
				return err
			}
			files, err := certificates.MakeAuthorities(args[0], life)
			if err != nil {
				return err
			}
			if dryRun {
				return sayDry(c, "would write %s.crt and .key, %s.crt and .key into %s", config.GivenClientsCA,
					config.GivenPeersCA, args[0])
			}
			if err := certificates.WriteFresh(args[0], files); err != nil {
				return err
			}
			return say(c, "wrote the clients' and the peers' authority, with their keys, into %s\n\n"+
				"next: copy the directory to every node (the keys with mode 0600), and set on each\n\n  tls: {mode: ca, ca-dir: "+
				"%s}\n\n"+
				"for a client: holdfast tls client NAME --to DIR\n", args[0], config.Abs(args[0]))
		},
	}
	c.Flags().Var(&durationFlag{&life}, "life", "how long they are valid")
	return addDryRun(c, &dryRun)
}

var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:-]*$`)

// isClientName reports whether `tls client` accepts a name. It becomes a file name, and the user where etcd's
// authentication is on.
func isClientName(name string) bool { return len(name) <= 64 && clientName.MatchString(name) }

func newTLSForgetCommand() *cobra.Command {
	var dryRun bool
	c := configured(&cobra.Command{
		Use:   "forget NAME",
		Short: "Forget a client's certificates: nodes no longer warn of their expiry or renew them",
		Args:  cobra.ExactArgs(1),
	}, func(c *cobra.Command, l *config.Loaded, args []string) error {
		known, err := node.OpenIssued(c.Context(), l.Config)
		if err != nil {
			return err
		}
		all, err := known.Look(c.Context()) // a record that cannot be read does not keep the others
		if !slices.ContainsFunc(all, func(r authorities.Client) bool { return r.Name == args[0] }) {
			return errors.Join(fmt.Errorf("no certificate of %s is known: `holdfast tls show` lists them", args[0]), err)
		}
		if dryRun {
			return sayDry(c, "would forget the certificates of %s", args[0])
		}
		if err := known.Forget(c.Context(), func(r authorities.Client) bool { return r.Name == args[0] }); err != nil {
			return fmt.Errorf("some certificates of %s may not be forgotten: %w", args[0], err)
		}
		return say(c, "forgot the certificates of %s\n", args[0])
	})
	return addDryRun(c, &dryRun)
}

func newTLSShowCommand() *cobra.Command {
	var format output
	c := configured(&cobra.Command{
		Use:   "show",
		Short: "Show every configured certificate with its expiry, and an open rotation of the authorities",
	}, func(c *cobra.Command, l *config.Loaded, _ []string) error {
		now := time.Now()
		shown := certificates.Look(c.Context(), l.Config, now)
		bad := func(s show.Certificate) bool { return s.Expired || s.Error != "" }
		return exitIf(slices.ContainsFunc(shown.Certificates, bad), format.write(c, shown, shown.Text(now)))
	})
	return format.add(c)
}
