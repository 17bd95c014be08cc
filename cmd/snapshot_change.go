package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

func newPruneCommand() *cobra.Command {
	var dryRun bool
	c := backupCommand("prune", "Remove the backups that snapshot.keep does not keep, and what failed saves left",
		"Never removed are pinned, foreign and etcd-manager's backups, unverified ones, and the newest verified ones.\n"+
			"The leader does the same after each backup; this is for stores that no node looks after.\n"+
			"Exit code 1 if one that is to go could not be deleted.",
		cobra.NoArgs,
		func(c *cobra.Command, b *backups.Backups, format output, _ []string) error {
			now := time.Now()
			pruned, err := b.Prune(c.Context(), now, dryRun)
			if err != nil && len(pruned.Kept) == 0 { // nothing was tried
				return err
			}
			return errors.Join(err, format.write(c, pruned, func(w io.Writer) error {
				return show.Pruned(w, pruned, now, dryRun)
			}))
		})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be removed")
	for _, key := range []string{"all", "hourly", "daily", "newest"} {
		c.Flags().Lookup("snapshot.keep." + key).Hidden = false
	}
	return c
}

func writePruned(w io.Writer, p snapshot.Pruned, now time.Time, dryRun bool) error {
	t := newTable("NAME", "AGE", "STORED", "WHAT", "WHY")
	removed := "removed"
	if dryRun {
		removed = "would be removed"
	}
	gone, freed := 0, int64(0)
	add := func(list []snapshot.Backup, why string) {
		for _, b := range list {
			what := removed
			if reason, kept := p.Kept[b.Name]; kept {
				what = "kept: " + reason
			} else {
				gone, freed = gone+1, freed+b.Stored.Size
			}
			t.AppendRow(table.Row{b.Name, health.Age(now, b.Created), health.Bytes(b.Stored.Size), what, why})
		}
	}
	add(p.Expired, "beyond snapshot.keep")
	add(p.Orphans, "left by a failed save")
	if t.Length() > 0 {
		fmt.Fprintln(w, t.Render())
	}
	_, err := fmt.Fprintf(w, "%s %s, %s\n", health.Count(int64(gone), "backup"), removed, health.Bytes(freed))
	return err
}

func newDeleteCommand() *cobra.Command {
	var force, dryRun bool
	c := backupCommand("delete NAME...", "Delete backups by name, in the store and in this machine's spool",
		"Nothing is deleted if one of the names is unknown, or is that of a pinned, unfinished or another cluster's backup\n"+
			"or of the newest verified one, unless with --force.",
		cobra.MinimumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			if err := b.Deletable(c.Context(), names, force); err != nil {
				return err
			}
			if dryRun {
				return wouldBackups(c, format, "would be deleted", names)
			}
			for _, name := range names {
				if err := b.Delete(c.Context(), name); err != nil {
					return err
				}
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", name)
				}
			}
			if format.json() {
				return show.JSON(c.OutOrStdout(), map[string][]string{"deleted": names})
			}
			return nil
		})
	c.Flags().BoolVar(&force, "force", false, "delete what is pinned, unfinished, foreign or the newest verified as well")
	addDryRun(c.Flags(), &dryRun)
	c.ValidArgsFunction = completeBackups
	return c
}

// deletable says what speaks against deleting the named ones of all backups.
func deletable(all []listed, names []string, force bool) error {
	var verified, rest []snapshot.Backup
	for _, b := range all {
		if b.Good() {
			verified = append(verified, b.Backup)
		} else if !b.Foreign && !b.Unfinished {
			b.Failed = nil // whatever was proven: among these the newest is the most that there is
			rest = append(rest, b.Backup)
		}
	}
	newest, ok := snapshot.Newest(verified, time.Now())
	what := "newest verified backup"
	if !ok { // part of a bad one may be all that can be had
		newest, _ = snapshot.Newest(rest, time.Now())
		what = "newest backup, and none is good"
	}
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(all, func(b listed) bool { return b.Name == name })
		switch {
		case i < 0:
			errs = append(errs, noSuchBackup(name))
		case force:
		case all[i].Pinned:
			errs = append(errs, fmt.Errorf("%s is pinned (%s): unpin it first, or use --force", name, pinText(all[i].Backup)))
		case all[i].Foreign:
			errs = append(errs, fmt.Errorf("%s is another cluster's (%s): use --force if it is to go", name, ownerText(all[i].Backup)))
		case all[i].Unfinished:
			errs = append(errs, fmt.Errorf("%s is unfinished and may be being saved: `prune` removes it a day after the last write, or use --force", name))
		case name == newest.Name:
			errs = append(errs, fmt.Errorf("%s is the %s: save another first, or use --force", name, what))
		}
	}
	return errors.Join(errs...)
}

// delete removes a backup from each place where it is.
func (b *backupStore) delete(ctx context.Context, name string) error {
	for _, from := range []struct {
		store snapshot.Store
		at    string
	}{{b.spool, b.cfg.Snapshot.Spool}, {b.main, b.cfg.Snapshot.Store}} {
		if from.store == nil {
			continue
		}
		if err := snapshot.Delete(ctx, from.store, name); err != nil && !errors.Is(err, snapshot.ErrNotFound) {
			return fmt.Errorf("in %s: %w", from.at, err)
		}
	}
	return nil
}

func newCopyCommand() *cobra.Command {
	var from, to string
	var dryRun bool
	c := backupCommand("copy {NAME|latest}... {--to|--from} STORE",
		"Copy backups to or from another store, and check them there",
		"STORE is a directory, file:///PATH or s3://BUCKET/PREFIX, reached as snapshot.s3 says; the other side is\n"+
			"snapshot.store. The copy has the same name; what was read back there has the digest that the sidecar tells. What is\n"+
			"there already and equal is left as it is.",
		cobra.MinimumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			if (from == "") == (to == "") {
				return errors.New("say either --to STORE or --from STORE")
			}
			target, err := b.At(c.Context(), from+to)
			if err != nil {
				return err
			}
			source := b
			if from != "" {
				source, target = target, b
			}
			at := target.Config.Snapshot.Store
			if dryRun {
				missing, err := source.Missing(c.Context(), names, target)
				if err != nil {
					return err
				}
				return wouldBackups(c, format, "would be copied to "+at, missing)
			}
			copied := []snapshot.Meta{}
			for _, name := range names {
				meta, err := source.Copy(c.Context(), name, target)
				if err != nil {
					return err
				}
				copied = append(copied, meta)
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "copied %s to %s: %s, read back and found equal\n", meta.Name, at,
						health.Bytes(meta.Stored.Size))
				}
			}
			if format.json() {
				return show.JSON(c.OutOrStdout(), copied)
			}
			return nil
		})
	c.Flags().StringVar(&to, "to", "", "`store` to copy to")
	c.Flags().StringVar(&from, "from", "", "`store` to copy from")
	addDryRun(c.Flags(), &dryRun)
	c.ValidArgsFunction = completeBackups
	return c
}

// wouldCopy says what copying would do.
func (b *backupStore) wouldCopy(c *cobra.Command, to snapshot.Store, at string, names []string) error {
	all, id, err := b.list(c.Context())
	if err != nil {
		return err
	}
	there, err := snapshot.List(c.Context(), to, id)
	if err != nil {
		return fmt.Errorf("list backups in %s: %w", at, err)
	}
	has := func(list []snapshot.Backup, name string) int {
		return slices.IndexFunc(list, func(b snapshot.Backup) bool { return b.Name == name && !b.Unfinished })
	}
	var missing []string
	for _, name := range names {
		if name, err = b.resolve(c, name); err != nil {
			return err
		}
		if has(all, name) < 0 {
			return fmt.Errorf("in %s %w", b.cfg.Snapshot.Store, noSuchBackup(name))
		}
		if has(there, name) < 0 {
			missing = append(missing, name)
		}
	}
	return b.would(c, "would be copied to "+at, missing)
}

// would ends a dry run on backups.
func (b *backupStore) would(c *cobra.Command, what string, names []string) error {
	if b.json() {
		return writeIndented(c.OutOrStdout(), map[string]any{what: names, "dry_run": true})
	}
	lines := make([]string, 0, len(names))
	for _, name := range names {
		lines = append(lines, name+" "+what)
	}
	if len(lines) == 0 {
		lines = []string{"nothing " + what}
	}
	return nothingChanged(c, strings.Join(lines, "\n"))
}

// at is b with another store in the place of its main one.
func (b *backupStore) at(store snapshot.Store, name string) *backupStore {
	other := *b
	other.main, other.spool, other.cfg.Snapshot.Store = store, nil, name
	return &other
}

// copy copies one backup of b to a store.
func (b *backupStore) copy(c *cobra.Command, to snapshot.Store, at, name string) (meta snapshot.Meta, err error) {
	if name, err = b.resolve(c, name); err != nil {
		return meta, err
	}
	err = b.progressing(c, func(opt snapshot.Options) error {
		meta, err = snapshot.Copy(c.Context(), b.main, to, name, opt)
		return err
	})
	if errors.Is(err, snapshot.ErrNotFound) {
		return meta, fmt.Errorf("in %s %w", b.cfg.Snapshot.Store, noSuchBackup(name))
	}
	if err != nil {
		return meta, fmt.Errorf("from %s to %s: %w", b.cfg.Snapshot.Store, at, err)
	}
	return meta, nil
}

func newPinCommand() *cobra.Command {
	var why string
	var dryRun bool
	c := backupCommand("pin {NAME|latest}", "Keep a backup from being pruned, for good", "", cobra.ExactArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			if err := snapshot.CheckReason(why); err != nil {
				return fmt.Errorf("--why: %w", err)
			}
			at, err := b.Pin(c.Context(), args[0], why, dryRun)
			return showPlace(c, format, "pinned", at, err, dryRun)
		})
	c.Flags().StringVar(&why, "why", "", "`reason`, shown in the list")
	addDryRun(c.Flags(), &dryRun)
	c.ValidArgsFunction = completeBackups
	return c
}

func newUnpinCommand() *cobra.Command {
	var dryRun bool
	c := backupCommand("unpin {NAME|latest}", "Let a backup be pruned again", "", cobra.ExactArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			at, err := b.Unpin(c.Context(), args[0], dryRun)
			return showPlace(c, format, "unpinned", at, err, dryRun)
		})
	addDryRun(c.Flags(), &dryRun)
	c.ValidArgsFunction = completeBackups
	return c
}

// inPlaces does something to a backup in the first few of the places where it is, and says so. The store is the first.
func (b *backupStore) inPlaces(c *cobra.Command, name, done string, few int, dryRun bool, do func(ctx context.Context, s snapshot.Store, name string) error) error {
	name, err := b.resolve(c, name)
	if err != nil {
		return err
	}
	all, err := b.everywhere(c.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a listed) bool { return a.Name == name })
	if i < 0 || all[i].Unfinished {
		return noSuchBackup(name)
	}
	if dryRun {
		return b.would(c, "would be "+done, []string{name})
	}
	places := map[string]snapshot.Store{inSpool: b.spool, inDirectory: b.main, inBucket: b.main}
	chosen := all[i].Where[:min(few, len(all[i].Where))]
	for _, where := range chosen {
		if err := do(c.Context(), places[where], name); err != nil {
			return fmt.Errorf("backup %s in %s was not %s: %w", name, where, done, err)
		}
	}
	if b.json() {
		return writeIndented(c.OutOrStdout(), map[string]any{done: name, "where": chosen})
	}
	fmt.Fprintf(c.OutOrStdout(), "%s %s (%s)\n", done, name, strings.Join(chosen, ", "))
	return nil
}

// showPlace says what was done to a backup, and where.
func showPlace(c *cobra.Command, format output, done string, at backups.Place, err error, dryRun bool) error {
	switch {
	case err != nil:
		return err
	case dryRun:
		return wouldBackups(c, format, "would be "+done, []string{at.Name})
	}
	return format.write(c, map[string]any{done: at.Name, "where": at.Where}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s (%s)\n", done, at.Name, strings.Join(at.Where, ", "))
		return err
	})
}
