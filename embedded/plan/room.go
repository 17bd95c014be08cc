package plan

import (
	"fmt"
	"strings"
)

// Room is what a file system has, in bytes. Size 0: it is not known.
type Room struct {
	Free int64 `json:"free"`
	Size int64 `json:"total"`
}

const (
	// segment is what etcd's log takes of a volume at once, before it needs it (SegmentSizeBytes). When that fails,
	// etcd ends the process at the next change of the file, even if there is room again by then.
	segment     = 64 << 20
	mostReserve = 1 << 30
)

// Reserve is how many bytes of a member's volume must stay free for etcd to keep running: 2 % of it, at least two files
// of the log and at most 1 GiB: the next file, and what is written until the alarm is up. It is never more than a
// quarter of a small volume.
func (r Room) Reserve() int64 { return min(max(r.Size/50, 2*segment), mostReserve, r.Size/4) }

// Enough is how many bytes must be free for writes to continue: half the reserve more, so that they do not stop at
// once. What etcd itself takes of a small volume leaves little more than that.
func (r Room) Enough() int64 { return r.Reserve() + r.Reserve()/2 }

// Short reports whether the reserve is not free. before is the last answer: what was short stays so until there is
// enough, and while nothing is known.
func (r Room) Short(before bool) bool {
	switch {
	case r.Size == 0:
		return before
	case before:
		return r.Free < r.Enough()
	}
	return r.Free < r.Reserve()
}

// needs says that less than this is free, in words that stay the same while the disk fills.
func (r Room) needs(bytes int64) string {
	return fmt.Sprintf("less than %d MiB of %d MiB free", bytes>>20, r.Size>>20)
}

// raise has etcd refuse writes while its volume still has room for what a refusal takes: where there is none, the next
// write to the log ends the process. A pause does not hold it back, for it keeps this member alive.
func (o upkeep) raise() *Action {
	r := o.Claim.Room
	return &Action{Kind: Raise, Alarm: NoSpace,
		Why: fmt.Sprintf("the volume of slot %s has %s, the reserve that keeps etcd running: raising the alarm NOSPACE, so "+
			"that the cluster takes no writes",
			o.Claim.Slot, r.needs(r.Reserve()))}
}

// short names the volumes without the reserve, as their holders say. Of a member that is away nothing is known: see
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

// shortage says which volumes have no room, and so why NOSPACE is not disarmed. "" if all have. Nothing done to a
// database makes room on its disk soon, and a defragmentation first takes room: the cure would only use up what is
// left.
func (o upkeep) shortage() string {
	short := o.short()
	if len(short) == 0 {
		return ""
	}
	note := fmt.Sprintf("alarm NOSPACE: the cluster takes no writes, because the volume of %s is nearly full: delete "+
		"from it what is not holdfast's, or make it larger; ",
		strings.Join(short, " and of "))
	if !o.Config.Upkeep.Cure {
		return note + "then disarm by hand, because upkeep.cure-nospace is off"
	}
	return note + "the alarm is disarmed when there is room again"
}
