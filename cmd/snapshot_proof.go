package cmd

import (
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

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

func insteadText(all []snapshot.Backup, bad ...string) string {
	all = slices.DeleteFunc(all, func(a snapshot.Backup) bool { return slices.Contains(bad, a.Name) })
	newest, ok := snapshot.Newest(all, time.Now())
	if !ok {
		return " (there is no other good one in this store)"
	}
	return " (the newest good one is " + newest.Name + ")"
}
