package cmd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
)

func newTLSClientCommand() *cobra.Command {
	i, renew, renewable := issuing{kind: "directory"}, false, false
	c := &cobra.Command{
		Use:   "client NAME --to DIR",
		Short: "Issue a client's certificate (tls.mode ca and auto)",
		Long: "Issue a client's certificate (tls.mode ca and auto): NAME.crt, NAME.key and ca.crt, which the client\n" +
			"needs to verify the servers. With it, the client can read and write everything.\n\n" +
			"NAME is the certificate's common name. Where etcd's own authentication is on, it is the user: a\n" +
			"certificate for root may do everything, and one for a user that etcd does not know may do nothing.\n\n" +
			"The backup store records when the certificate expires, and the nodes warn from 30 days before, until a\n" +
			"later one is issued for NAME. --renew, from a timer, renews NAME.crt in place once two thirds of its\n" +
			"life are over, or its authority was replaced. NAME.key stays as it is, so the pair always matches.\n\n" +
			"The key of the clients' authority must be here: run the command on a node, or with the node's\n" +
			"configuration. A certificate that was issued with --renewable can also be renewed from its own machine,\n" +
			"with the same name and lifetime: `holdfast discover --client DIR/NAME` keeps it fresh, and --renew with\n" +
			"--control.remote.address HOST:PORT (control.listen of a node) asks for it once. `holdfast tls forget\n" +
			"NAME` ends that.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if renew {
				if err := asItself(c.Flags(), certificates.FilesOf(i.to, name)); err != nil {
					return err
				}
			}
			l, err := i.load(c, name)
			if err != nil {
				return err
			}
			f := certificates.FilesOf(i.to, name)
			var has *tls.Certificate
			if renew {
				if has, err = f.Read(); err != nil {
					return fmt.Errorf("--renew: %w", err)
				}
			}
			if at := l.Config.Control.Remote.Address; renew && at != "" {
				return ask(c, f, at, has, i.dryRun)
			}
			issued, err := certificates.Issue(c.Context(), l.Config, name, has, i.life)
			if err != nil {
				return err
			}
			issued.Renewable = renewable
			written := false
			if renew {
				written, err = f.Renew(c.OutOrStdout(), issued, has, i.dryRun)
			} else {
				written, err = f.Write(c.OutOrStdout(), issued, i.dryRun)
			}
			if !written || err != nil {
				return err
			}
			issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
			return nil
		},
	}
	i.flags(c, "the `directory` to write to", 365*24*time.Hour)
	c.Flags().BoolVar(&renew, "renew", false, "renew the existing certificate, if it is time")
	c.Flags().BoolVar(&renewable, "renewable", false, "allow its holder to have a node renew it, over control.listen")
	return c
}

// asItself makes a command show the certificate that it renews to a node on another machine, if the flags give only the
// node's address.
func asItself(fs *pflag.FlagSet, f certificates.Files) (err error) {
	if !fs.Changed("control.remote.address") {
		return nil
	}
	for key, path := range map[string]string{"cert-file": f.Certificate, "key-file": f.Key, "ca-file": f.Authorities} {
		if name := "control.remote." + key; !fs.Changed(name) {
			err = errors.Join(err, fs.Set(name, path))
		}
	}
	return err
}

// issuing are the flags that all commands which issue a certificate have.
type issuing struct {
	kind   string // of --to: "directory" or "file"
	to     string
	life   time.Duration
	dryRun bool
}

func (i *issuing) flags(c *cobra.Command, to string, life time.Duration) {
	i.life = life
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&i.to, "to", "", to)
	c.Flags().Var(&durationFlag{&i.life}, "life", "how long it is valid; never longer than the authority")
	addDryRun(c.Flags(), &i.dryRun)
}

// load checks the name and the flags, and reads the configuration.
func (i *issuing) load(c *cobra.Command, name string) (*config.Loaded, error) {
	if !clientName.MatchString(name) {
		return nil, fmt.Errorf("NAME: must be 1–64 of letters, digits and . _ @ : -, beginning with one of the first two, "+
			"got %q", name)
	}
	if i.to == "" {
		return nil, fmt.Errorf("--to: must be a %s, got none", i.kind)
	}
	if err := atLeast("life", time.Minute, i.life); err != nil {
		return nil, err
	}
	return config.Load("", c.Flags(), os.Environ())
}

// ask asks a node to renew the certificate, if it is due.
func ask(c *cobra.Command, f certificates.Files, address string, has *tls.Certificate, dryRun bool) error {
	if c.Flags().Changed("life") || c.Flags().Changed("renewable") {
		return usage(errors.New("--life, --renewable: a node renews a certificate for as long as it was issued, and no " +
			"other way"))
	}
	return f.Ask(c.Context(), c.OutOrStdout(), address, has, dryRun)
}
