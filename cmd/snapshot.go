package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

func newSnapshotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, list, verify, drill, prune, copy and pin backups",
		Long: "Save, list, verify, drill, prune, copy and pin backups. save asks the node on this machine, or with --endpoints\n" +
			"any etcd. All others need only the store, --snapshot.store DIRECTORY or s3://BUCKET/PREFIX, and no\n" +
			"running node.\n\n" +
			"Exit code: 0 only if what was asked for is done and true.",
	}
	return group(c, newSaveCommand(), newListCommand(), newVerifyCommand(), newDrillCommand(), newPruneCommand(),
		newDeleteCommand(),
		newCopyCommand(), newPinCommand(), newUnpinCommand())
}

// backups is what a command on backups works with.
type backupStore struct {
	cfg    config.Config
	main   snapshot.Store
	spool  snapshot.Store // nil: there is none on this machine
	opt    snapshot.Options
	optErr error // why opt is not usable; most commands need none
	output string
}

// json reports whether the answer is for programs.
func (b *backupStore) json() bool { return b.output == "json" }

// backupCommand is a command that works on the stores alone, on any machine.
func backupCommand(use, short, long string, args cobra.PositionalArgs,
	do func(c *cobra.Command, b *backups.Backups, format output, args []string) error) *cobra.Command {
	var format output
	c := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(c *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			cfg, _, err := loadClient(c)
			if err != nil {
				return err
			}
			b, err := backups.Open(c.Context(), cfg, operator(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			return do(c, b, format, args)
		},
	}
	if long != "" {
		c.Long = short + ".\n\n" + long
	}
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().Lookup("control.socket").Hidden = true // no node is asked
	format.add(c.Flags())
	return c
}

// openBackups opens the stores of the configuration. Of this machine's directories those that are not there are left
// out: a machine that runs no node has none.
func openBackups(ctx context.Context, cfg config.Config, output string) (*backupStore, error) {
	there := func(dir string) bool {
		_, err := os.Stat(dir)
		return dir != "" && !errors.Is(err, os.ErrNotExist)
	}
	b := &backupStore{cfg: cfg, output: output}
	var err error
	if b.main, err = openStore(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Snapshot.Store, err)
	}
	if there(cfg.Snapshot.Spool) {
		b.spool = openSpool(cfg)
	}
	b.opt, b.optErr = backupOptions(cfg)
	b.opt.By = operator()
	if !there(cfg.Snapshot.Scratch) {
		b.opt.Scratch = "" // the system's temporary directory
	}
	return b, nil
}

// list returns the backups in the main store, oldest first.
func (b *backupStore) list(ctx context.Context) ([]snapshot.Backup, snapshot.Identity, error) {
	id, err := generations.Identity(ctx, b.main, b.cfg.Cluster.Name)
	if err != nil {
		return nil, id, fmt.Errorf("read %s: %w", b.cfg.Snapshot.Store, err)
	}
	all, err := snapshot.List(ctx, b.main, id)
	if err != nil {
		return nil, id, fmt.Errorf("list backups in %s: %w", b.cfg.Snapshot.Store, err)
	}
	return all, id, nil
}

// latest is the name of the newest good backup of our own cluster.
const latest = "latest"

// resolve returns the backup that name, or latest, names in the main store. What latest passes over it tells.
func (b *backupStore) resolve(c *cobra.Command, name string) (string, error) {
	if name != latest {
		return name, nil
	}
	id, err := generations.Identity(c.Context(), b.main, b.cfg.Cluster.Name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", b.cfg.Snapshot.Store, err)
	}
	found, skipped, err := snapshot.Latest(c.Context(), b.main, id)
	if err != nil {
		return "", fmt.Errorf("find the latest backup in %s: %w", b.cfg.Snapshot.Store, err)
	}
	for _, text := range skippedTexts(skipped, found, time.Now()) {
		fmt.Fprintln(c.ErrOrStderr(), text)
	}
	return found.Name, nil
}

// progressing runs f with progress shown on standard error.
func (b *backupStore) progressing(c *cobra.Command, f func(opt snapshot.Options) error) error {
	if b.optErr != nil {
		return b.optErr
	}
	bar := newProgress(c.ErrOrStderr())
	defer bar.end()
	opt := b.opt
	opt.Progress = bar.show
	return f(opt)
}

func newSaveCommand() *cobra.Command {
	var output string
	var dryRun bool
	var remote remoteFlags
	c := &cobra.Command{
		Use:   "save",
		Short: "Save a backup now, read it back and verify it",
		Long: "Save a backup now, read it back and verify it.\n\n" +
			"Without --endpoints the node on this machine saves its own member, by its own configuration. With --endpoints\n" +
			"this process saves any etcd, of a follower if it can, to snapshot.store; no node needs to run. The flags that\n" +
			"say how to reach it are etcdctl's, and so are the variables ETCDCTL_CACERT, _CERT, _KEY, _USER and _PASSWORD.",
		Example: "  holdfast snapshot save\n" +
			"  holdfast snapshot save --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key \\\n" +
			"    --cluster.name main --snapshot.store s3://bucket/etcd",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			loaded, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			if dryRun {
				return wouldSave(c, loaded, &remote, output)
			}
			start := time.Now()
			bar := newProgress(c.ErrOrStderr())
			var meta snapshot.Meta
			if c.Flags().Changed("endpoints") { // also if it is empty: a variable that is not set must not save this node instead
				meta, err = remote.save(c.Context(), loaded, bar.show)
			} else if err = remote.unused(c.Flags()); err == nil {
				var node *control.Client
				if node, err = control.Open(loaded.Config.Control); err == nil {
					meta, err = saveBy(c.Context(), node, bar.show)
				}
			}
			bar.end()
			if err != nil {
				return fmt.Errorf("NOT saved: %w", err)
			}
			if output == "json" {
				return writeIndented(c.OutOrStdout(), meta)
			}
			fmt.Fprintf(c.OutOrStdout(), "saved %s in %s: revision %d, %d records, %s stored as %s, read back and verified in %s\n",
				meta.Name, loaded.Config.Snapshot.Store, meta.Content.Revision, meta.Content.Keys, health.Bytes(meta.Content.Size), health.Bytes(meta.Stored.Size),
				time.Since(start).Round(time.Millisecond))
			return nil
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	remote.add(c.Flags())
	addDryRun(c.Flags(), &dryRun)
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

// wouldSave finds the member that would be saved, and sees whether the store answers.
func wouldSave(c *cobra.Command, loaded *config.Loaded, remote *remoteFlags, output string) error {
	var meta snapshot.Meta
	var err error
	if c.Flags().Changed("endpoints") {
		meta, err = remote.wouldSave(c.Context(), loaded)
	} else if err = remote.unused(c.Flags()); err == nil {
		var node *control.Client
		if node, err = control.Open(loaded.Config.Control); err == nil {
			err = node.Get(c.Context(), http.MethodPost, "/snapshot?dry=true", &meta)
		}
	}
	if err != nil {
		return fmt.Errorf("nothing would be saved: %w", err)
	}
	if output == "json" {
		return writeIndented(c.OutOrStdout(), meta)
	}
	return nothingChanged(c, fmt.Sprintf("would save the member of slot %s, as %s, to %s", meta.Slot, meta.Cluster, loaded.Config.Snapshot.Store))
}

// wouldBackups ends a dry run on backups.
func wouldBackups(c *cobra.Command, format output, what string, names []string) error {
	return format.write(c, map[string]any{what: names, "dry_run": true}, func(w io.Writer) error {
		lines := make([]string, 0, len(names))
		for _, name := range names {
			lines = append(lines, name+" "+what)
		}
		if len(lines) == 0 {
			lines = []string{"nothing " + what}
		}
		return show.NothingChanged(w, strings.Join(lines, "\n"))
	})
}

// completeBackups completes the names of backups, the newest first, if the store answers soon.
func completeBackups(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	cfg, _, err := loadClient(c)
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
	defer cancel()
	b, err := backups.Open(ctx, cfg, "", io.Discard)
	if err != nil {
		return nil, none
	}
	all, _ := b.Everywhere(ctx)
	names := []string{}
	for _, a := range slices.Backward(all) {
		names = append(names, fmt.Sprintf("%s\t%s ago, revision %d %s", a.Name, health.Age(time.Now(), a.Created),
			a.Content.Revision, a.Problem))
	}
	return names, none
}
