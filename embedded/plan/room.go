package plan

import (
	"fmt"
	"strings"
)

// Room is the space of a file system in bytes. Size 0: unknown.
type Room struct {
	Free int64 `json:"free"`
	Size int64 `json:"total"`
}

const (
	// segment is how much etcd's log reserves on a volume at once, before it needs it (SegmentSizeBytes). If that fails,
	// etcd ends the process at the next change of the file, even if there is room again by then.
	segment     = 64 << 20
	mostReserve = 1 << 30
)

// Reserve is how many bytes of a member's volume must stay free so that etcd can keep running. It is 2 % of the volume,
// at least two log files and at most 1 GiB: for the next file, and for what is written until the alarm is raised. It is
// never more than a quarter of a small volume.
func (r Room) Reserve() int64 { return min(max(r.Size/50, 2*segment), mostReserve, r.Size/4) }

// Enough is how many bytes must be free for writes to continue: one and a half times the reserve, so that they do not
// stop again at once. On a small volume, etcd itself leaves little more than that.
func (r Room) Enough() int64 { return r.Reserve() + r.Reserve()/2 }

// Begin is how many bytes must be free on a volume without a member: the two files that etcd's log takes at once, and
// what must be free for writes after that, which leaves half a reserve for the database: 205 MiB at least.
func (r Room) Begin() int64 { return 2*segment + r.Enough() }

// Short reports whether the reserve is not free. before is the last answer: a short volume stays short until there is
// enough, and while the space is unknown.
func (r Room) Short(before bool) bool {
	switch {
	case r.Size == 0:
		return before
	case before:
		return r.Free < r.Enough()
	}
	return r.Free < r.Reserve()
}

// needs says that fewer than these bytes are free, in words that stay the same while the disk fills.
func (r Room) needs(bytes int64) string {
	return fmt.Sprintf("less than %d MiB of %d MiB free", bytes>>20, r.Size>>20)
}

// raise makes etcd refuse writes while its volume still has room for what a refusal writes. Without that room, the next
// write to the log would end the process. A pause does not hold it back, because it keeps this member running.
func (o upkeep) raise() Action {
	r := o.Claim.Room
	return Action{Kind: Raise, Alarm: NoSpace,
		Why: fmt.Sprintf("the volume of slot %s has %s, the reserve that keeps etcd running: raising the alarm NOSPACE, "+
			"so that the cluster takes no writes", o.Claim.Slot, r.needs(r.Reserve()))}
}

// short names the volumes without the reserve, as their holders report. Nothing is known about an absent member: see
// away.
func (o upkeep) short() []string {
	var short []string
	for _, s := range o.wantedSlots() {
		switch r := o.Claim.Room; {
		case s.ours && o.Claim.Short && r.Size > 0:
			short = append(short, fmt.Sprintf("slot %s on %s (%s)", s.slot, o.Node, r.needs(r.Enough())))
		case s.ours && o.Claim.Short:
			short = append(short, fmt.Sprintf("slot %s on %s (its disk does not say how much is free)", s.slot, o.Node))
		case !s.ours && s.holder != nil && s.holder.Facts.Short:
			short = append(short, fmt.Sprintf("slot %s on %s", s.slot, s.holder.Node))
		}
	}
	return short
}

// shortage says which volumes are too full, and thus why NOSPACE is not disarmed; "" if none is. Nothing done to a
// database soon frees space on its disk, and a defragmentation first needs some: the cure would only use up what is
// left.
func (o upkeep) shortage() string {
	short := o.short()
	if len(short) == 0 {
		return ""
	}
	note := fmt.Sprintf("alarm NOSPACE: the cluster takes no writes, because the volume of %s is nearly full: delete "+
		"from it what is not holdfast's, or make it larger; ", strings.Join(short, " and of "))
	if !o.Config.Upkeep.Cure {
		return note + "then disarm by hand, because upkeep.cure-nospace is off"
	}
	return note + "the alarm is disarmed when there is room again"
}
