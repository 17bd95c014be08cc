package cmd

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/show"
)

func newTLSObserverCommand() *cobra.Command {
	i := issuing{kind: "file"}
	c := &cobra.Command{
		Use:   "observer NAME --to FILE",
		Short: "Issue what an observer on another machine needs for the gossip (tls.mode ca and auto)",
		Long: "Issue what an observer on another machine (`holdfast discover`) needs for the gossip: one file with its certificate,\n" +
			"its key and the peers' authorities. Copy it there, readable for its user alone, and set gossip.observer-file to it.\n\n" +
			"Who has it hears what the nodes say of themselves, and is believed about nobody. It is of no use at the members'\n" +
			"ports. It is not renewed by itself: issue another one, which counts at once where it replaces the file; the nodes tell\n" +
			"of its end from 30 days before. After a rotation of the authorities there must be a new one before the old authority goes.\n\n" +
			"The key of the peers' authority must be here: run it on a node, or with the node's configuration.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			l, err := i.load(c, name)
			if err != nil {
				return err
			}
			issued, err := certificates.Observer(c.Context(), l.Config, name, i.life)
			if err != nil {
				return err
			}
			file := []freshFile{{i.to, issued.Certificate, 0o600}}
			if err := absent(file); err != nil {
				return err
			}
			if i.dryRun {
				return show.NothingChanged(c.OutOrStdout(), "would write "+i.to)
			}
			if err := writeFresh(filepath.Dir(i.to), file); err != nil {
				return err
			}
			issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s: set gossip.observer-file to it where it is for\n", i.to)
			return err
		},
	}
	i.flags(c, "the `file` to write")
	return c
}
