package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// recordTime is how long recording a proof may take. The proof itself took longer.
const recordTime = 30 * time.Second

// record stores a proof beside the backup. That this fails changes nothing about what was found: it is only told.
func (b *backupStore) record(c *cobra.Command, name string, p snapshot.Proof) {
	ctx, cancel := context.WithTimeout(c.Context(), recordTime)
	defer cancel()
	err := snapshot.Record(ctx, b.main, name, p)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) { // deleted meanwhile, there is nothing to tell of it
		fmt.Fprintf(c.ErrOrStderr(), "the result is known here only: %v\n", err)
	}
}

// skippedTexts say which backups latest passes over, why, and what it is instead: nothing if it passes over none.
func skippedTexts(skipped []snapshot.Backup, newest snapshot.Backup, now time.Time) (lines []string) {
	for _, b := range skipped {
		lines = append(lines, fmt.Sprintf("latest is not %s: it %s", b.Name, failedText(*b.Failed, now)))
	}
	switch {
	case len(skipped) > 0 && newest.Name == "":
		lines = append(lines, "NO good backup is left: save another, `holdfast snapshot save`")
	case len(skipped) > 0:
		lines = append(lines, fmt.Sprintf("the newest good backup is %s, %s old", newest.Name, health.Age(now, newest.Created)))
	}
	return lines
}

// failedText says what a proof found against a backup.
func failedText(p snapshot.Proof, now time.Time) string {
	return fmt.Sprintf("FAILED its %s %s ago%s: %s", proofWord(p), health.Age(now, p.At), byText(p), p.Error)
}

// proofWord is what a kind of proof is called: a check of the digest is a verify without a key.
func proofWord(p snapshot.Proof) string {
	if p.Kind == snapshot.ProofDigest {
		return snapshot.ProofVerify
	}
	return p.Kind
}

func byText(p snapshot.Proof) string {
	if p.By == "" {
		return ""
	}
	return " by " + p.By
}

// proofProblems are what is wrong with a backup according to its proofs, and those that cannot be read.
func proofProblems(b snapshot.Backup, now time.Time) (problems []string) {
	if b.Failed != nil {
		problems = append(problems, failedText(*b.Failed, now))
	}
	for _, p := range b.Proofs {
		if p.Unknown != "" {
			problems = append(problems, fmt.Sprintf("the result of its last %s is not known: %s", proofWord(p), p.Unknown))
		}
	}
	return problems
}

// provenText is the last good proof of a backup, "" if there is none.
func provenText(b snapshot.Backup, now time.Time) string {
	var last snapshot.Proof
	for _, p := range b.Proofs {
		if p.Unknown == "" && p.Error == "" && !p.At.Before(last.At) { // of one time, the stronger
			last = p
		}
	}
	if last.Kind == "" || b.Failed != nil {
		return ""
	}
	text := fmt.Sprintf("%s %s ago", proofWord(last), health.Age(now, last.At))
	if last.Kind == snapshot.ProofDigest {
		text += ", digest only"
	}
	return text
}

// recordDrill stores the result of a drill: beside the backup and, if that is the newest, as the last drill that the
// schedule counts from and that nodes show.
func (b *backupStore) recordDrill(c *cobra.Command, d snapshot.Drill) {
	ctx, cancel := context.WithTimeout(c.Context(), recordTime)
	defer cancel()
	id, err := generations.Identity(ctx, b.main, b.cfg.Cluster.Name)
	if err == nil {
		err = snapshot.RecordDrill(ctx, b.main, id, d, b.opt)
	}
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		fmt.Fprintf(c.ErrOrStderr(), "the result is known here only: %v\n", err)
	}
}

// instead names the newest good backup other than the bad ones, whether that these are bad could be recorded or not. It
// is "" if there is none, or the store does not tell.
func (b *backupStore) instead(ctx context.Context, bad ...string) string {
	all, _, err := b.list(ctx)
	if err != nil {
		return ""
	}
	return insteadText(all, bad...)
}

func insteadText(all []snapshot.Backup, bad ...string) string {
	all = slices.DeleteFunc(all, func(a snapshot.Backup) bool { return slices.Contains(bad, a.Name) })
	newest, ok := snapshot.Newest(all, time.Now())
	if !ok {
		return " (there is no other good one in this store)"
	}
	return " (the newest good one is " + newest.Name + ")"
}

// comparedText says what a drill compared with what was saved.
func comparedText(checked []string) string {
	if len(checked) == 0 {
		return "nothing was compared"
	}
	last := len(checked) - 1
	if last == 0 {
		return checked[0] + " is what was saved"
	}
	return strings.Join(checked[:last], ", ") + " and " + checked[last] + " are what was saved"
}
