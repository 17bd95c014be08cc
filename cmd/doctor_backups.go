package cmd

import (
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// unfinishedFor is how old a backup that was never finished is before `prune` removes it.
const unfinishedFor = 24 * time.Hour

// holdings is what a listing of the store says.
func holdings(all []snapshot.Backup, unread string, now time.Time) *health.Holdings {
	if unread != "" {
		return &health.Holdings{Err: unread}
	}
	h := new(health.Holdings)
	for _, b := range all {
		if i := slices.IndexFunc(b.Proofs, func(p snapshot.Proof) bool { return p.Unknown != "" }); i >= 0 && !b.Foreign {
			h.Unproven = health.Sample{Count: h.Unproven.Count + 1, Example: fmt.Sprintf("%s: %s", b.Name, b.Proofs[i].Unknown)}
		}
		switch {
		case b.Foreign:
			h.Foreign++
		case b.Unfinished && now.Sub(b.Created) > unfinishedFor:
			h.Left++
		case b.Unfinished, b.Legacy:
		case !b.Good():
			h.Broken = health.Sample{Count: h.Broken.Count + 1, Example: fmt.Sprintf("%s: %s", b.Name, problemText(b, now))}
		default:
			h.Good++
		}
	}
	newest, _ := snapshot.Newest(all, now)
	h.Skipped = skippedTexts(snapshot.Skipped(all, now), newest, now)
	return h
}

func problemText(b snapshot.Backup, now time.Time) string {
	switch {
	case b.Problem != "":
		return b.Problem
	case b.Failed != nil:
		return "it " + failedText(*b.Failed, now)
	}
	return "not verified"
}
