package cmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/embedded/pki"
)

func newTLSObserverCommand() *cobra.Command {
	p := paper{holder: pki.Observer, key: "gossip.observer-file", life: 365 * 24 * time.Hour}
	return p.command(&cobra.Command{
		Short: "Issue the certificate that an observer on another machine needs for gossip (tls.mode ca and auto)",
		Long: "Issue the certificate that an observer on another machine (`holdfast discover`) needs for gossip: one\n" +
			"file with the certificate, its key and the peers' authorities. Copy it there, readable only by its user,\n" +
			"and set gossip.observer-file to it.\n\n" +
			"Anyone who has the file hears what the nodes say about themselves, but cannot state facts about nodes.\n" +
			"The members' ports refuse it. With --renewable, `holdfast discover` keeps it fresh, where control.listen\n" +
			"is set on the nodes. Otherwise issue another one before it expires, and in a rotation of the authorities\n" +
			"before the old authority is removed. A new file takes effect as soon as it replaces the old one.\n\n" +
			paperHelp,
	})
}

func newTLSOperatorCommand() *cobra.Command {
	p := paper{holder: pki.Operator, key: "tls.operator-file", life: 30 * 24 * time.Hour}
	return p.command(&cobra.Command{
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
	})
}

const paperHelp = "" +
	"The nodes warn from 30 days before it expires, or a tenth of its life if that is less. `holdfast tls\n" +
	"forget NAME` ends the warnings and its renewals.\n\n" +
	"The key of the peers' authority must be here: run it on a node, or with the node's configuration."

// paper describes a command that issues a [pki.Paper].
type paper struct {
	holder pki.Holder
	key    string // the key of the configuration that names the file
	life   time.Duration
}

func (p paper) command(c *cobra.Command) *cobra.Command {
	i, renew, renewable := issuing{kind: "file"}, false, false
	c.Use = string(p.holder) + " NAME --to FILE"
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		name := args[0]
		if renew {
			if err := asItself(c.Flags(), certificates.PaperOf(p.holder, i.to, "")); err != nil {
				return err
			}
		}
		l, err := i.load(c, name)
		if err != nil {
			return err
		}
		if renew {
			return p.renew(c, l.Config, name, i)
		}
		issued, err := certificates.IssuePaper(c.Context(), l.Config, p.holder, name, i.life)
		if err != nil {
			return err
		}
		file := []certificates.FreshFile{{Path: i.to, Text: issued.Certificate, Mode: 0o600}}
		if err := certificates.Absent(file); err != nil {
			return err
		}
		if i.dryRun {
			return sayDry(c, "would write %s", i.to)
		}
		if err := certificates.WriteFresh(filepath.Dir(i.to), file); err != nil {
			return err
		}
		issued.Renewable = renewable
		issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
		return say(c, "wrote %s: set %s to it where it is for\n", i.to, p.key)
	}
	i.flags(c, "the `file` to write", p.life)
	c.Flags().BoolVar(&renew, "renew", false, "have a node (--control.remote.address) renew the existing one, if it is "+
		"time")
	c.Flags().BoolVar(&renewable, "renewable", false, "allow its holder to have a node renew it, over control.listen")
	return c
}

// renew asks a node to renew the certificate, if it is due.
func (p paper) renew(c *cobra.Command, cfg config.Config, name string, i issuing) error {
	at := cfg.Control.Remote.Address
	if at == "" {
		return usage(errors.New("--renew: say with --control.remote.address which node to ask; on a node, issue another one"))
	}
	f := certificates.PaperOf(p.holder, i.to, cfg.Zone())
	f.Name = name
	has, err := f.Read()
	if err != nil {
		return fmt.Errorf("--renew: %w", err)
	}
	return ask(c, f, at, has, i.dryRun)
}
