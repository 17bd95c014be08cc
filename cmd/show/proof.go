package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// SkippedTexts returns lines about the backups that latest skips, why, and which one it is instead. It returns none if
// latest skips none.
func SkippedTexts(skipped []snapshot.Backup, newest snapshot.Backup, now time.Time) (lines []string) {
	for _, b := range skipped {
		lines = append(lines, fmt.Sprintf("latest is not %s: it %s", b.Name, FailedText(*b.Failed, now)))
	}
	switch {
	case len(skipped) > 0 && newest.Name == "":
		lines = append(lines, "NO good backup is left: save another, `holdfast snapshot save`")
	case len(skipped) > 0:
		lines = append(lines, fmt.Sprintf("the newest good backup is %s, %s old", newest.Name,
			health.Age(now, newest.Created)))
	}
	return lines
}

// FailedText returns what a failed proof found.
func FailedText(p snapshot.Proof, now time.Time) string {
	return fmt.Sprintf("FAILED its %s %s ago%s: %s", proofWord(p), health.Age(now, p.At), byText(p), p.Error)
}

// proofWord returns the name of a kind of proof. A check of the digest is a verify without a key.
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

// InsteadText returns a text that names the newest good backup other than the bad ones, or says that there is none.
func InsteadText(all []snapshot.Backup, bad ...string) string {
	all = slices.DeleteFunc(all, func(a snapshot.Backup) bool { return slices.Contains(bad, a.Name) })
	newest, ok := snapshot.Newest(all, time.Now())
	if !ok {
		return " (there is no other good one in this store)"
	}
	return " (the newest good one is " + newest.Name + ")"
}

// ComparedText returns what a drill compared. unrecorded means that it compared with the database itself, because
// nothing was recorded when the backup was saved.
func ComparedText(checked []string, unrecorded bool) string {
	if len(checked) == 0 {
		return "nothing was compared"
	}
	with := "what was saved"
	if unrecorded {
		with = "what its database holds; etcd-manager recorded nothing to compare it with"
	}
	last := len(checked) - 1
	if last == 0 {
		return checked[0] + " is " + with
	}
	return strings.Join(checked[:last], ", ") + " and " + checked[last] + " are " + with
}

// proofProblems returns the failed proof of a backup, and its proofs that cannot be read.
func proofProblems(b snapshot.Backup, now time.Time) (problems []string) {
	if b.Failed != nil {
		problems = append(problems, FailedText(*b.Failed, now))
	}
	for _, p := range b.Proofs {
		if p.Unknown != "" {
			problems = append(problems, fmt.Sprintf("the result of its last %s is not known: %s", proofWord(p), p.Unknown))
		}
	}
	return problems
}

// provenText returns the last good proof of a backup, or "" if there is none.
func provenText(b snapshot.Backup, now time.Time) string {
	var last snapshot.Proof
	for _, p := range b.Proofs {
		if p.Unknown == "" && p.Error == "" && !p.At.Before(last.At) { // with equal times the later, stronger one
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
