package cmd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/embedded/pki"
)

func newTLSClientCommand() *cobra.Command {
	i := issuing{holder: pki.Client, kind: "directory", life: 365 * 24 * time.Hour}
	return i.command(&cobra.Command{
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
	}, "the `directory` to write to", "renew the existing certificate, if it is time")
}

func newTLSObserverCommand() *cobra.Command {
	i := issuing{holder: pki.Observer, kind: "file", life: 365 * 24 * time.Hour}
	return i.command(&cobra.Command{
		Short: "Issue the certificate that an observer on another machine needs for gossip (tls.mode ca and auto)",
		Long: "Issue the certificate that an observer on another machine (`holdfast discover`) needs for gossip: one\n" +
			"file with the certificate, its key and the peers' authorities. Copy it there, readable only by its user,\n" +
			"and set gossip.observer-file to it.\n\n" +
			"Anyone who has the file hears what the nodes say about themselves, but cannot state facts about nodes.\n" +
			"The members' ports refuse it. With --renewable, `holdfast discover` keeps it fresh, where control.listen\n" +
			"is set on the nodes. Otherwise issue another one before it expires, and in a rotation of the authorities\n" +
			"before the old authority is removed. A new file takes effect as soon as it replaces the old one.\n\n" +
			paperHelp,
	}, paperTo, paperRenew)
}

func newTLSOperatorCommand() *cobra.Command {
	i := issuing{holder: pki.Operator, kind: "file", life: 30 * 24 * time.Hour}
	return i.command(&cobra.Command{
		Short: "Issue the certificate with which an operator on another machine signs orders (tls.mode ca and auto)",
		Long: "Issue the certificate with which an operator on another machine signs orders: `holdfast restore`,\n" +
			"`recover` and `rejoin --instead` put proposals into the backup store, and the nodes obey only signed\n" +
			"ones. It is one file with the certificate, its key and the peers' authorities. Copy it there, readable\n" +
			"only by its user, and set tls.operator-file to it.\n\n" +
			"It signs proposals and their aborts, and nothing else. It is not a member's or a client's certificate,\n" +
			"and does not admit to the gossip. To run commands on a node from there, such as --confirm, you also need\n" +
			"a client's certificate that control.operators names (control.remote).\n\n" +
			"With --renewable it can be renewed from its own machine: by --renew with --control.remote.address\n" +
			"HOST:PORT (a node's control.listen), from a timer, or by `holdfast discover`, which keeps it fresh.\n\n" +
			paperHelp,
	}, paperTo, paperRenew)
}

const paperHelp = "" +
	"The nodes warn from 30 days before it expires, or a tenth of its life if that is less. `holdfast tls\n" +
	"forget NAME` ends the warnings and its renewals.\n\n" +
	"The key of the peers' authority must be here: run it on a node, or with the node's configuration."

// The help of --to and --renew for the file of an observer or an operator.
const (
	paperTo    = "the `file` to write"
	paperRenew = "have a node (--control.remote.address) renew the existing one, if it is time"
)

// issuing is a command that issues a certificate.
type issuing struct {
	holder                   pki.Holder
	kind                     string // of --to: "directory" or "file"
	to                       string
	life                     time.Duration
	dryRun, renew, renewable bool
}

// command completes a command. to and renew are the help of these flags.
func (i issuing) command(c *cobra.Command, to, renew string) *cobra.Command {
	c.Use = fmt.Sprintf("%s NAME --to %s", i.holder, map[string]string{"directory": "DIR", "file": "FILE"}[i.kind])
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error { return i.run(c, args[0]) }
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&i.to, "to", "", to)
	c.Flags().Var(&durationFlag{&i.life}, "life", "how long it is valid; never longer than the authority")
	addDryRun(c.Flags(), &i.dryRun)
	c.Flags().BoolVar(&i.renew, "renew", false, renew)
	c.Flags().BoolVar(&i.renewable, "renewable", false, "allow its holder to have a node renew it, over control.listen")
	return c
}

// files returns the files of the certificate.
func (i issuing) files(name, zone string) certificates.Files {
	if i.holder == pki.Client {
		return certificates.FilesOf(i.to, name)
	}
	f := certificates.PaperOf(i.holder, i.to, zone)
	f.Name = name
	return f
}

func (i issuing) run(c *cobra.Command, name string) error {
	if i.renew {
		if err := asItself(c.Flags(), i.files(name, "")); err != nil {
			return err
		}
	}
	l, err := i.load(c, name)
	if err != nil {
		return err
	}
	f, at := i.files(name, l.Config.Zone()), l.Config.Control.Remote.Address
	if i.renew && at == "" && i.holder != pki.Client {
		return usage(errors.New("--renew: say with --control.remote.address which node to ask; on a node, issue another one"))
	}
	var has *tls.Certificate
	if i.renew {
		if has, err = f.Read(); err != nil {
			return fmt.Errorf("--renew: %w", err)
		}
	}
	if i.renew && at != "" {
		if c.Flags().Changed("life") || c.Flags().Changed("renewable") {
			return usage(errors.New("--life, --renewable: a node renews a certificate for as long as it was issued, and no " +
				"other way"))
		}
		return f.Ask(c.Context(), c.OutOrStdout(), at, has, i.dryRun)
	}
	issued, err := certificates.Issue(c.Context(), l.Config, i.holder, name, has, i.life)
	if err != nil {
		return err
	}
	issued.Renewable = i.renewable
	write := f.Write
	if i.renew {
		write = func(out io.Writer, issued certificates.Issued, dryRun bool) (bool, error) {
			return f.Renew(out, issued, has, dryRun)
		}
	}
	if written, err := write(c.OutOrStdout(), issued, i.dryRun); !written || err != nil {
		return err
	}
	issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
	return nil
}

// load checks the name and the flags, and reads the configuration.
func (i issuing) load(c *cobra.Command, name string) (*config.Loaded, error) {
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
