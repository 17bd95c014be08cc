package cmd

import (
	"cmp"
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
	"holdfast/cmd/config"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// listed is one line of a listing: a backup, and where it is.
type listed struct {
	snapshot.Backup
	Where []string `json:"where"` // inBucket or inDirectory, and inSpool
}

// Where a backup is.
const (
	inBucket    = "s3"
	inDirectory = "dir"
	inSpool     = "spool" // of this machine
)

func newListCommand() *cobra.Command {
	return backupCommand("list", "List the backups in the store and in this machine's spool, oldest first",
		"The order is that of the clocks that made them. The newest by what they hold, which is `latest`, has the highest\n"+
			"generation and, of that, the highest revision. One that failed its last verify or drill, on whichever machine,\n"+
			"is not `latest`. PROVEN is the last proof since it was saved.\n\n"+
			"A backup is listed once, WHERE says in which places it is. Problems are shown and are no failure of the listing;\n"+
			"a place that cannot be read is: then the others are shown, and the exit code is 1.",
		cobra.NoArgs,
		func(c *cobra.Command, b *backups.Backups, format output, _ []string) error {
			all, err := b.Everywhere(c.Context())
			if len(all) == 0 && err != nil { // that there is none is not known
				return err
			}
			return errors.Join(err, format.write(c, all, func(w io.Writer) error {
				return show.Listing(w, b.Config.Cluster.Name, b.Config.Snapshot.Store, all, time.Now())
			}))
		})
}

// everywhere lists the main store and the spool as one. Where one of them cannot be read the error says which, and the
// list is that of the other; it is nil if there is none.
func (b *backupStore) everywhere(ctx context.Context) ([]listed, error) {
	place := inDirectory
	if b.cfg.Snapshot.InBucket() {
		place = inBucket
	}
	main, id, err := b.list(ctx)
	if b.spool == nil {
		if err != nil {
			return nil, err
		}
		return merge(place, main, nil, true), nil
	}
	spooled, spoolErr := snapshot.List(ctx, b.spool, id)
	if spoolErr != nil {
		spoolErr = fmt.Errorf("list backups in the spool %s: %w", b.cfg.Snapshot.Spool, spoolErr)
	}
	if err != nil && spoolErr != nil {
		return nil, errors.Join(err, spoolErr)
	}
	return merge(place, main, spooled, err == nil), errors.Join(err, spoolErr)
}

// merge joins the lists of the main store, called place, and of the spool by name, oldest first. mainRead says that the
// main list is complete, so that what only the spool has is only there.
func merge(place string, main, spooled []snapshot.Backup, mainRead bool) []listed {
	all := make([]listed, 0, len(main)+len(spooled))
	at := map[string]int{}
	for _, m := range main {
		at[m.Name] = len(all)
		all = append(all, listed{m, []string{place}})
	}
	for _, s := range spooled {
		i, both := at[s.Name]
		switch {
		case !both:
			if mainRead && s.Good() {
				s.Problem = "only in the spool of this machine, not copied to the store yet"
			}
			all = append(all, listed{s, []string{inSpool}})
		case !all[i].Good() && s.Good(): // the spool knows more of it
			bad := all[i].Backup
			all[i].Backup = s
			all[i].Proofs, all[i].Failed = bad.Proofs, bad.Failed
			if bad.Failed == nil {
				all[i].Problem = fmt.Sprintf("in the %s copy: %s", place, cmp.Or(bad.Problem, "not verified"))
			}
			all[i].Where = append(all[i].Where, inSpool)
		default:
			all[i].Where = append(all[i].Where, inSpool)
		}
	}
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name)) })
	return all
}

func writeBackups(w io.Writer, cfg config.Config, all []listed, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "no backups of cluster %s in %s\n", cfg.Cluster.Name, cfg.Snapshot.Store)
		return err
	}
	t := newTable("NAME", "AGE", "SIZE", "STORED", "REVISION", "KEYS", "CODEC", "VERIFIED", "PROVEN", "PINNED", "CLUSTER", "WHERE", "PROBLEM")
	t.SuppressEmptyColumns() // proofs, pins, other clusters and problems are rare
	for _, b := range all {
		if b.Problem == "" && b.Unmarked {
			b.Problem = "etcd-manager does not see it: its mark is missing"
		}
		b.Problem = strings.Join(slices.DeleteFunc(append([]string{b.Problem}, proofProblems(b.Backup, now)...),
			func(s string) bool { return s == "" }), "; ")
		row := table.Row{b.Name, health.Age(now, b.Created), "-", health.Bytes(b.Stored.Size), "-", "-", codecText(b.Backup), "no", provenText(b.Backup, now), pinText(b.Backup), ownerText(b.Backup), strings.Join(b.Where, ", "), b.Problem}
		if b.Content.Size > 0 {
			row[2], row[4], row[5] = health.Bytes(b.Content.Size), b.Content.Revision, b.Content.Keys
		}
		if b.Failed != nil {
			row[7] = "FAILED"
		} else if !b.Verified.IsZero() {
			row[7] = "yes"
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
	return writeSkipped(w, all, now)
}

// writeSkipped says it aloud when the newest backup is bad.
func writeSkipped(w io.Writer, all []listed, now time.Time) error {
	backups := make([]snapshot.Backup, 0, len(all))
	for _, a := range all {
		backups = append(backups, a.Backup)
	}
	newest, _ := snapshot.Newest(backups, now)
	var err error
	for _, text := range skippedTexts(snapshot.Skipped(backups, now), newest, now) {
		_, err = fmt.Fprintln(w, text)
	}
	return err
}

func codecText(b snapshot.Backup) string {
	text := cmp.Or(b.Stored.Codec, "-")
	if b.Stored.Encrypted {
		text += ", age"
	}
	return text
}

func pinText(b snapshot.Backup) string {
	if !b.Pinned {
		return ""
	}
	return cmp.Or(b.PinReason, "yes")
}

// ownerText says whose a backup is, if it is not certainly ours.
func ownerText(b snapshot.Backup) string {
	switch {
	case b.Legacy:
		return "etcd-manager's"
	case b.Foreign:
		return "foreign: " + cmp.Or(b.Cluster, "unknown")
	}
	return ""
}
