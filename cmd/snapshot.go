package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holdfast/snapshot"
)

func newSnapshotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, list, verify and delete backups",
		Long: "Save, list, verify and delete backups. save asks the node on this machine; list, verify and delete need only\n" +
			"the store (snapshot.store), no running node.",
	}
	c.AddCommand(newSaveCommand(), newListCommand(), newVerifyCommand(), newDeleteCommand())
	return c
}

func newSaveCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "save",
		Short: "Save a backup now, read it back and verify it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			cfg, node, err := loadClient(c)
			if err != nil {
				return err
			}
			start := time.Now()
			bar := newProgress(c.ErrOrStderr())
			meta, err := node.save(c.Context(), bar.show)
			bar.end()
			if err != nil {
				return fmt.Errorf("NOT saved: %w", err)
			}
			if output == "json" {
				return writeIndented(c.OutOrStdout(), meta)
			}
			fmt.Fprintf(c.OutOrStdout(), "saved %s in %s: revision %d, %d records, %s stored as %s, read back and verified in %s\n",
				meta.Name, cfg.Snapshot.Store, meta.Content.Revision, meta.Content.Keys, bytesText(meta.Content.Size), bytesText(meta.Stored.Size), time.Since(start).Round(time.Millisecond))
			return nil
		},
	}
	addClientFlags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

// storeCommand is a command that works on the backup store alone.
func storeCommand(use, short string, args cobra.PositionalArgs, do func(c *cobra.Command, cfg Config, store snapshot.Store, args []string) error) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, _, err := loadClient(c)
			if err != nil {
				return err
			}
			return do(c, cfg, snapshot.NewDir(cfg.Snapshot.Store), args)
		},
	}
	addClientFlags(c.Flags(), "snapshot.store", "snapshot.scratch", "cluster.name")
	return c
}

func newListCommand() *cobra.Command {
	var output string
	c := storeCommand("list", "List the backups of the cluster, oldest first", cobra.NoArgs,
		func(c *cobra.Command, cfg Config, store snapshot.Store, _ []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			backups, err := snapshot.List(c.Context(), store, cfg.Cluster.Name)
			if err != nil {
				return fmt.Errorf("list backups in %s: %w", cfg.Snapshot.Store, err)
			}
			if output == "json" {
				return writeIndented(c.OutOrStdout(), backups)
			}
			return writeBackups(c.OutOrStdout(), cfg, backups, time.Now())
		})
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

func writeBackups(w io.Writer, cfg Config, backups []snapshot.Backup, now time.Time) error {
	if len(backups) == 0 {
		_, err := fmt.Fprintf(w, "no backups of cluster %s in %s\n", cfg.Cluster.Name, cfg.Snapshot.Store)
		return err
	}
	t := newTable("NAME", "AGE", "SIZE", "STORED", "REVISION", "RECORDS", "SLOT", "VERIFIED", "PROBLEM")
	for _, b := range backups {
		row := table.Row{b.Name, age(now, b.Created), bytesText(b.Content.Size), bytesText(b.Stored.Size), b.Content.Revision, b.Content.Keys, b.Slot, "yes", b.Problem}
		if b.Verified.IsZero() {
			row = table.Row{b.Name, age(now, b.Created), "-", bytesText(b.Stored.Size), "-", "-", "-", "no", b.Problem}
		}
		t.AppendRow(row)
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

func newVerifyCommand() *cobra.Command {
	var output string
	c := storeCommand("verify [NAME...]", "Prove again that backups are whole: the named ones, or all", cobra.ArbitraryArgs,
		func(c *cobra.Command, cfg Config, store snapshot.Store, names []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			if len(names) == 0 {
				backups, err := snapshot.List(c.Context(), store, cfg.Cluster.Name)
				if err != nil {
					return fmt.Errorf("list backups in %s: %w", cfg.Snapshot.Store, err)
				}
				for _, b := range backups {
					names = append(names, b.Name)
				}
				if len(names) == 0 {
					return fmt.Errorf("no backups of cluster %s in %s: nothing was verified", cfg.Cluster.Name, cfg.Snapshot.Store)
				}
			}
			return verifyAll(c, cfg, store, names, output)
		})
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

// verdict is one line of `snapshot verify -o json`.
type verdict struct {
	Name  string         `json:"name"`
	Good  bool           `json:"good"`
	Error string         `json:"error,omitempty"`
	Meta  *snapshot.Meta `json:"meta,omitempty"`
}

func verifyAll(c *cobra.Command, cfg Config, store snapshot.Store, names []string, output string) error {
	scratch := cfg.Snapshot.Scratch
	if _, err := os.Stat(scratch); errors.Is(err, os.ErrNotExist) {
		scratch = "" // a machine that runs no node: the system's temporary directory
	}
	var verdicts []verdict
	bad := 0
	for _, name := range names {
		bar := newProgress(c.ErrOrStderr())
		meta, err := snapshot.Verify(c.Context(), store, cfg.Cluster.Name, name, snapshot.Options{Scratch: scratch, Progress: bar.show})
		bar.end()
		if errors.Is(err, context.Canceled) {
			return err
		}
		v := verdict{Name: name, Good: err == nil, Meta: &meta}
		if err != nil {
			bad++
			v.Error, v.Meta = err.Error(), nil
		}
		verdicts = append(verdicts, v)
		if output == "table" {
			text := "BAD: " + v.Error
			if v.Good {
				text = fmt.Sprintf("good: revision %d, %d records, %s", meta.Content.Revision, meta.Content.Keys, bytesText(meta.Content.Size))
			}
			fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", name, text)
		}
	}
	if output == "json" {
		if err := writeIndented(c.OutOrStdout(), verdicts); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d backups in %s are bad", bad, len(names), cfg.Snapshot.Store)
	}
	return nil
}

func newDeleteCommand() *cobra.Command {
	var output string
	c := storeCommand("delete NAME...", "Delete backups by name", cobra.MinimumNArgs(1),
		func(c *cobra.Command, cfg Config, store snapshot.Store, names []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			for _, name := range names {
				if err := snapshot.Delete(c.Context(), store, cfg.Cluster.Name, name); err != nil {
					return fmt.Errorf("delete backup %s in %s: %w", name, cfg.Snapshot.Store, err)
				}
				if output == "table" {
					fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", name)
				}
			}
			if output == "json" {
				return writeIndented(c.OutOrStdout(), map[string][]string{"deleted": names})
			}
			return nil
		})
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

// progress shows how far a save or a verification has come: a bar on a terminal, nothing elsewhere.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	phase string
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) show(s snapshot.Progress) {
	if p.w == nil {
		return
	}
	if p.bar == nil || p.phase != s.Phase {
		p.end()
		p.phase = s.Phase
		p.bar = progressbar.NewOptions64(s.Total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription(s.Phase), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
	}
	_ = p.bar.Set64(s.Done) // a terminal that is gone is no reason to stop
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
