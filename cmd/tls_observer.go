package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/show"
)

func newTLSObserverCommand() *cobra.Command {
	to, life, dryRun := "", 365*24*time.Hour, false
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
			if !clientName.MatchString(name) {
				return fmt.Errorf("NAME: must be 1–64 of letters, digits and . _ @ : -, beginning with one of the first two, got %q", name)
			}
			if to == "" {
				return errors.New("--to: must be a file, got none")
			}
			if err := atLeast("life", time.Minute, life); err != nil {
				return err
			}
			l, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			issued, err := certificates.Observer(c.Context(), l.Config, name, life)
			if err != nil {
				return err
			}
			file := []freshFile{{to, issued.Certificate, 0o600}}
			if err := absent(file); err != nil {
				return err
			}
			if dryRun {
				return show.NothingChanged(c.OutOrStdout(), "would write "+to)
			}
			if err := writeFresh(filepath.Dir(to), file); err != nil {
				return err
			}
			issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s: set gossip.observer-file to it where it is for\n", to)
			return err
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&to, "to", "", "the `file` to write")
	c.Flags().Var(&durationFlag{&life}, "life", "how long it is valid; never longer than the authority")
	addDryRun(c.Flags(), &dryRun)
	return c
}
