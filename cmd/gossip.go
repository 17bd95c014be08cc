package cmd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/gossip"
)

func newGossipCommand() *cobra.Command {
	c := &cobra.Command{Use: "gossip", Short: "Show and rotate the keys of the gossip; forget lost nodes"}
	return group(c, newGossipKeysCommand(), newGossipRotateCommand(), newGossipKeygenCommand(), newGossipExportCommand(),
		newGossipForgetCommand())
}

func newGossipKeysCommand() *cobra.Command {
	var format output
	c := &cobra.Command{
		Use:   "keys",
		Short: "Show which node has which gossip key, by fingerprint",
		Long: "Show which node has which gossip key, by fingerprint: the first 8 hex digits of the SHA-256 of the key. The primary\n" +
			"key encrypts, each decrypts. A key that is derived from the peers' authority has a serial.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := format.check(); err != nil {
				return err
			}
			_, client, err := loadClient(c)
			if err != nil {
				return err
			}
			var all []gossip.NodeKeys
			if err := client.Get(c.Context(), http.MethodGet, "/gossip/keys", &all); err != nil {
				return err
			}
			return format.write(c, all, func(w io.Writer) error { return writeKeys(w, all) })
		},
	}
	addClientFlags(c.Flags())
	format.add(c.Flags())
	return c
}

func writeKeys(w io.Writer, all []gossip.NodeKeys) error {
	t := show.Table("NODE", "LIVE", "ORIGIN", "PRIMARY", "DECRYPTS TOO", "PROBLEM")
	for _, n := range all {
		var too []string
		for i, k := range n.Keys.Keys {
			if i > 0 {
				too = append(too, keyText(k))
			}
		}
		live := "yes"
		if !n.Live {
			live = "no"
		}
		t.AppendRow(table.Row{n.Node, live, show.OrDash(n.Origin), keyText(n.Primary()), show.OrDash(strings.Join(too, ", ")),
			n.Problem})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// keyText is a key for people.
func keyText(k gossip.Key) string {
	switch {
	case k.Fingerprint == "":
		return "-"
	case k.Secret != "":
		return fmt.Sprintf("%s (serial %d)", k.Fingerprint, k.Serial)
	case !k.Made.IsZero():
		return fmt.Sprintf("%s (made %s)", k.Fingerprint, k.Made.Format(time.RFC3339))
	}
	return k.Fingerprint
}

func newGossipRotateCommand() *cobra.Command {
	var force, dryRun, yes bool
	c := &cobra.Command{
		Use:   "rotate-key",
		Short: "Replace the gossip key on all nodes",
		Long: "Replace the gossip key on all nodes: a new one is installed everywhere, then used everywhere, then the old ones are\n" +
			"removed everywhere. No step begins before every live node has confirmed the one before, so all nodes hear each\n" +
			"other at any time. After an interruption the same command continues where it was; it can be given on any node that\n" +
			"has the new key.\n\n" +
			"A key that is derived from the peers' authority is never sent, only its serial. With gossip.key-file a new random\n" +
			"key is sent under the old one and written into the file of each node: who has the old key and has recorded the\n" +
			"traffic learns the new one. If the old key is known to others, put a new file on each node by hand instead.\n\n" +
			"It is refused while a known node is not live, unless --force is given. An observer (`holdfast discover`) must be\n" +
			"given the new key in its file.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, client, err := loadClient(c)
			if err != nil {
				return err
			}
			var p node.KeyRotation
			if err := client.Get(c.Context(), http.MethodPost, fmt.Sprintf("/gossip/rotate?dry=true&force=%t", force),
				&p); err != nil {
				return fmt.Errorf("rotate the gossip key: %w", err)
			}
			if dryRun {
				return show.NothingChanged(c.OutOrStdout(), rotationText(p, "would go"))
			}
			if !yes {
				fmt.Fprintln(c.OutOrStdout(), rotationText(p, "goes"))
				if err := confirm(c.Context(), c, "Rotate?"); err != nil {
					return err
				}
			}
			if err := client.Get(c.Context(), http.MethodPost, fmt.Sprintf("/gossip/rotate?force=%t", force), &p); err != nil {
				return fmt.Errorf("rotate the gossip key: %w", err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), rotationText(p, "gone"))
			return err
		},
	}
	addClientFlags(c.Flags())
	c.Flags().BoolVar(&force, "force", false,
		"continue although a known node is not live: it must find the key later, or be given it")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	addDryRun(c.Flags(), &dryRun)
	return c
}

// rotationText says what a rotation does.
func rotationText(r node.KeyRotation, verb string) string {
	text := fmt.Sprintf("%s to key %s on %s", verb, keyText(r.Key), strings.Join(r.Nodes, ", "))
	if r.Unfinished {
		text += "\nthis finishes what was begun before: give the command again for a key that is new to all"
	}
	if len(r.Left) > 0 {
		text += "\nleft behind, for they are not live: " + strings.Join(r.Left, ", ")
	}
	if len(r.Observers) > 0 {
		text += "\nobservers, whose gossip.key-file must be given the key: " + strings.Join(r.Observers, ", ")
	}
	return text
}

func newGossipKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen",
		Short: "Print a new line for gossip.key-file",
		Long: "Print a new line for gossip.key-file, which must have mode 0600 and be the same on each node:\n\n" +
			"  (umask 077; holdfast gossip keygen > /etc/holdfast-gossip.key)",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), gossip.KeyLine(gossip.NewSecret(), time.Now()))
			return err
		},
	}
}

func newGossipExportCommand() *cobra.Command {
	var to string
	var dryRun bool
	c := &cobra.Command{
		Use:   "export-key",
		Short: "Write the derived gossip key as a gossip.key-file, for an observer",
		Long: "Write the gossip keys that this node has derived from the peers' authority into a gossip.key-file with mode 0600, for\n" +
			"`holdfast discover` on machines that have no authority. They are read from tls.dir; no running node is needed. After\n" +
			"a rotation they must be exported again. A file that is there is not overwritten.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if to == "" {
				return errors.New("--to: say which file to write")
			}
			cfg, _, err := loadClient(c)
			if err != nil {
				return err
			}
			return exportKey(c, cfg, to, dryRun)
		},
	}
	addClientFlags(c.Flags())
	c.Flags().StringVar(&to, "to", "", "the `file` to write")
	addDryRun(c.Flags(), &dryRun)
	return c
}

func exportKey(c *cobra.Command, cfg config.Config, to string, dryRun bool) error {
	if cfg.Gossip.KeyFile != "" {
		return fmt.Errorf("gossip.key-file is set: copy %s itself", cfg.Gossip.KeyFile)
	}
	lines, err := gossip.ExportKeys(node.KeysPath(cfg))
	if err != nil {
		return fmt.Errorf("%w; has this node run with tls.mode ca or auto?", err)
	}
	file := []freshFile{{to, []byte(strings.Join(lines, "\n") + "\n"), 0o600}}
	if err := absent(file); err != nil {
		return err
	}
	if dryRun {
		return show.NothingChanged(c.OutOrStdout(), fmt.Sprintf("would write %d keys to %s", len(lines), to))
	}
	if err := writeFresh(filepath.Dir(to), file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %d keys to %s: set gossip.key-file to it where it is for\n", len(lines),
		to)
	return err
}
