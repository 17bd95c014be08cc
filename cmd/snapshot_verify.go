package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

func newVerifyCommand() *cobra.Command {
	c := backupCommand("verify [NAME...|latest]",
		"Prove again that backups are whole: the named ones, or all of the cluster",
		"What is stored is read completely: its digest, its decompression, the database's own SHA-256, each page, and its\n"+
			"content against the sidecar. Of an encrypted backup without the right snapshot.identity-file only the digest is\n"+
			"checked, which is said. The result is recorded beside the backup: all nodes show it, and a bad one is no longer\n"+
			"`latest`. Exit code 1 if one is bad, or could not be checked.",
		cobra.ArbitraryArgs,
		func(c *cobra.Command, b *backups.Backups, format output, names []string) error {
			verdicts, err := b.Verify(c.Context(), names, func(v backups.Verdict) {
				if !format.json() {
					fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", v.Name, v)
				}
			})
			if format.json() && verdicts != nil {
				return errors.Join(show.JSON(c.OutOrStdout(), verdicts), err)
			}
			return err
		})
	c.ValidArgsFunction = completeBackups
	return c
}

// verdict is one line of `snapshot verify -o json`.
type verdict struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Unknown says that it could not be checked, as Error tells: nothing speaks against the backup.
	Unknown bool `json:"unknown,omitempty"`
	// DigestOnly says that the backup is encrypted and that no identity here decrypts it.
	DigestOnly bool           `json:"digestOnly,omitempty"`
	Error      string         `json:"error,omitempty"`
	Meta       *snapshot.Meta `json:"meta,omitempty"`
}

func (v verdict) String() string {
	switch {
	case v.Unknown:
		return "NOT CHECKED: " + v.Error
	case !v.Good:
		return "BAD: " + v.Error
	case v.DigestOnly:
		return fmt.Sprintf("good as far as its digest goes: %s as they were stored; it is encrypted, and no key in snapshot.identity-file opens it", health.Bytes(v.Meta.Stored.Size))
	}
	return fmt.Sprintf("good: revision %d, %d records, %s", v.Meta.Content.Revision, v.Meta.Content.Keys, health.Bytes(v.Meta.Content.Size))
}

// verifyAll judges backups one after the other. listed says that the names were just seen in the store: one that is gone
// was removed meanwhile, which is nothing to tell.
func (b *backupStore) verifyAll(c *cobra.Command, names []string, listed bool) error {
	if b.optErr != nil {
		return b.optErr
	}
	verdicts := []verdict{}
	bad, unknown, badNames := 0, 0, []string{}
	for _, name := range names {
		name, err := b.resolve(c, name)
		if err != nil {
			return err
		}
		v, err := b.verify(c, name)
		if errors.Is(err, snapshot.ErrNotFound) {
			if listed {
				continue
			}
			v, err = verdict{Name: name, Unknown: true, Error: noSuchBackup(name).Error()}, nil
		}
		if err != nil {
			return err
		}
		switch {
		case v.Unknown:
			unknown++
		case !v.Good:
			bad, badNames = bad+1, append(badNames, name)
		}
		verdicts = append(verdicts, v)
		if !b.json() {
			fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", name, v)
		}
	}
	if b.json() {
		if err := writeIndented(c.OutOrStdout(), verdicts); err != nil {
			return err
		}
	}
	var errs []error
	if bad > 0 {
		errs = append(errs, fmt.Errorf("%d of %d backups in %s are bad: restore from another%s, and delete these when you have looked at them",
			bad, len(names), b.cfg.Snapshot.Store, b.instead(c.Context(), badNames...)))
	}
	if unknown > 0 {
		errs = append(errs, fmt.Errorf("%d of %d backups in %s could not be checked, which says nothing against them", unknown, len(names), b.cfg.Snapshot.Store))
	}
	return errors.Join(errs...)
}

// noSuchBackup is the error about a name that the store does not have.
func noSuchBackup(name string) error {
	return fmt.Errorf("there is no backup %s (`holdfast snapshot list` shows what is there)", name)
}

// verify judges one backup. The error is that of a caller that gave up, or ErrNotFound.
func (b *backupStore) verify(c *cobra.Command, name string) (verdict, error) {
	var found snapshot.Verification
	err := b.progressing(c, func(opt snapshot.Options) (err error) {
		found, err = snapshot.Verify(c.Context(), b.main, name, opt)
		return err
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, snapshot.ErrNotFound) {
		return verdict{}, err
	}
	if p, ok := snapshot.VerifyProof(found, err, b.opt); ok {
		b.record(c, name, p)
	}
	if err != nil {
		return verdict{Name: name, Unknown: !snapshot.Damaged(err), Error: err.Error()}, nil
	}
	return verdict{Name: name, Good: true, DigestOnly: !found.Full, Meta: &found.Meta}, nil
}

func newDrillCommand() *cobra.Command {
	c := backupCommand("drill [NAME|latest]", "Prove that a backup can be restored: restore it, start it, compare it",
		"The backup, by default the newest verified one, is restored into a scratch directory in a process of its own,\n"+
			"started where it listens nowhere, and compared with what was recorded when it was saved. Of etcd-manager's\n"+
			"backups nothing is recorded: they are compared with what the database in them holds. Nothing that runs is\n"+
			"touched. The result is recorded beside the backup: all nodes show it, and a bad one is no longer `latest`. Of an\n"+
			"encrypted backup it needs snapshot.identity-file.",
		cobra.MaximumNArgs(1),
		func(c *cobra.Command, b *backups.Backups, format output, args []string) error {
			d, err := b.Drill(c.Context(), append(args, backups.Latest)[0])
			if err != nil {
				return err
			}
			err = format.write(c, d, func(w io.Writer) error {
				if d.Error == "" {
					fmt.Fprintf(w, "%s was restored and started in %s: %s\n", d.Name, d.Took.Round(time.Millisecond),
						show.ComparedText(d.Checked, d.Unrecorded))
				}
				return nil
			})
			if err == nil && d.Error != "" {
				err = fmt.Errorf("backup %s can NOT be restored: %s: restore from another%s", d.Name, d.Error,
					b.Instead(c.Context(), d.Name))
			}
			return err
		})
	c.ValidArgsFunction = completeBackups
	return c
}

func (b *backupStore) drill(c *cobra.Command, name string) (d snapshot.Drill, err error) {
	err = b.progressing(c, func(opt snapshot.Options) error {
		d, err = runDrill(c.Context(), b.main, name, opt)
		return err
	})
	if err == nil {
		b.recordDrill(c, d)
	}
	return d, err
}
