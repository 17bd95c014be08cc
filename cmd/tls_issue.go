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
	}, "the `directory` to write to", "renew the existing certificate, if it is time")
}

func newTLSObserverCommand() *cobra.Command {
	i := issuing{holder: pki.Observer, kind: "file", life: 365 * 24 * time.Hour}
	return i.command(&cobra.Command{
		Short: "Issue the certificate that an observer on another machine needs for gossip (tls.mode ca and auto)",
	}, paperTo, paperRenew)
}

func newTLSOperatorCommand() *cobra.Command {
	i := issuing{holder: pki.Operator, kind: "file", life: 30 * 24 * time.Hour}
	return i.command(&cobra.Command{
		Short: "Issue the certificate with which an operator on another machine signs orders (tls.mode ca and auto)",
	}, paperTo, paperRenew)
}

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
	readsConfig(c)
	c.Flags().StringVar(&i.to, "to", "", to)
	c.Flags().Var(&durationFlag{&i.life}, "life", "how long it is valid; never longer than the authority")
	c.Flags().BoolVar(&i.renew, "renew", false, renew)
	c.Flags().BoolVar(&i.renewable, "renewable", false, "allow its holder to have a node renew it, over control.listen")
	return addDryRun(c, &i.dryRun)
}

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
	if !isClientName(name) {
		return nil, usage(fmt.Errorf("NAME: must be 1–64 of letters, digits and . _ @ : -, beginning with one of the "+
			"first two, got %q", name))
	}
	if i.to == "" {
		return nil, usage(fmt.Errorf("--to: must be a %s, got none", i.kind))
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
