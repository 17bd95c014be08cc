package proposal

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// weighTime limits how long the store may take to list the backups. It reads a small object for each.
const weighTime = 30 * time.Second

// Whether the survivor or the newest backup holds more.
const (
	moreSurvivor = "survivor" // or both hold the same
	moreBackup   = "backup"
	moreUnknown  = "unknown" // the backups could not be listed, or one does not tell
)

// recovery is the nodes' survey of the survivors, and how the chosen survivor compares with the newest backup.
type recovery struct {
	coordinator.Surveyed
	Revisions map[string]int64 `json:"revisions,omitempty"` // last known, by slot
	Backup    *snapshot.Backup `json:"newestBackup,omitempty"`
	NoBackup  string           `json:"noBackup,omitempty"` // why the newest backup is not known
	More      string           `json:"holdsMore,omitempty"`

	despite  string           // --despite-backup
	overrule []string         // --overrule
	seen     plan.BackupStand // the backup that held most of all that the nodes have seen
}

// complete adds the revisions from the status.
func (s *recovery) complete(v view) {
	s.Revisions = map[string]int64{}
	for _, n := range v.Nodes {
		if n.Volume != nil && n.Etcd != nil {
			s.Revisions[n.Volume.Slot] = n.Etcd.Revision
		}
		if b := n.Backup; b != nil && b.Most != nil && b.Most.Beyond(s.seen.Generation, s.seen.Revision) {
			s.seen = *b.Most
		}
	}
}

// weigh finds the newest backup of the cluster and compares the chosen survivor with it, by generation and then by
// revision. A member's status has the revision that it has applied, and its log may hold more. So the comparison never
// overrates a survivor.
func (s *recovery) weigh(ctx context.Context, store snapshot.Store) {
	if s.Record == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, weighTime)
	defer cancel()
	all, err := snapshot.List(ctx, store, snapshot.Identity{Cluster: s.Record.Cluster, Lineage: s.Record.Lineage()})
	now := time.Now()
	if err == nil {
		err = snapshot.Untold(all)
	}
	// One that cannot be restored matters only if it holds more than the survivor.
	if most, ok := snapshot.Newest(snapshot.AsSaved(all), now); err == nil && ok && most.Ordered() && s.beyond(most) {
		err = snapshot.Doubt(all, now)
	}
	if err == nil {
		err = s.missing(all, now)
	}
	if err != nil {
		s.NoBackup = err.Error()
	} else if newest, ok := snapshot.Newest(all, now); ok {
		s.Backup = &newest
	}
	s.compare()
}

// missing returns an error if a node has seen a backup that holds more than the chosen survivor, and more than all
// backups here.
func (s *recovery) missing(all []snapshot.Backup, now time.Time) error {
	held, _ := snapshot.Most(all, now)
	here, seen := show.StandOf(held.Meta), s.seen
	if !seen.Beyond(here.Generation, here.Revision) || !seen.Beyond(s.Record.Generation, s.Revisions[s.Chosen.Slot]) {
		return nil
	}
	return fmt.Errorf("a node has seen backup %s (generation %d, revision %d) in its store, and it is not in this one",
		seen.Name, seen.Generation, seen.Revision)
}

// beyond reports whether a backup holds more than the chosen survivor.
func (s *recovery) beyond(b snapshot.Backup) bool {
	return show.StandOf(b.Meta).Beyond(s.Record.Generation, s.Revisions[s.Chosen.Slot])
}

// compare sets More. It stays empty if there is no backup, or the backup has no generation.
func (s *recovery) compare() {
	switch {
	case s.Chosen.Slot == "":
	case s.NoBackup != "":
		s.More = moreUnknown
	case s.Backup == nil || !s.Backup.Ordered():
	case s.beyond(*s.Backup):
		s.More = moreBackup
	default:
		s.More = moreSurvivor
	}
}

// despites returns the value that --despite-backup must have, or "" if the flag is not needed.
func (s recovery) despites() string {
	switch s.More {
	case moreBackup:
		return s.Backup.Name
	case moreUnknown:
		return moreUnknown
	}
	return ""
}

// poorer returns an error if the recovery ends before the newest backup, or may, unless the operator has named both the
// survivor and that backup (R16). The error says how to keep more, and how to continue all the same.
func (s recovery) poorer(survivor string) error {
	needed := s.despites()
	if needed == "" || survivor != "" && s.despite == needed {
		return nil
	}
	sure := s
	sure.despite = needed
	anyway := sure.command(s.Chosen.Slot)
	wrong := ""
	if s.despite != "" && s.despite != needed {
		wrong = fmt.Sprintf("--despite-backup: got %s, want %s: ", s.despite, needed)
	}
	if s.More == moreUnknown {
		return fmt.Errorf("%swhether a backup holds more than slot %s is not known: %s; nothing was changed\n"+
			"  make the store answer, and delete backups that are damaged for good (`holdfast snapshot list`)\n"+
			"  to continue from slot %s whatever the backups hold: %s",
			wrong, s.Chosen.Slot, s.NoBackup, s.Chosen.Slot, anyway)
	}
	lost := ""
	if len(s.Declare) > 0 {
		lost = " --lost " + strings.Join(s.Declare, ",")
	}
	return fmt.Errorf("%sbackup %s holds more than slot %s: %s; nothing was changed\n"+
		"  to keep more, continue with the backup: give the lost slots blank disks, and run: holdfast restore %s%s\n"+
		"  to continue from slot %s all the same, and lose what only the backup holds: %s",
		wrong, s.Backup.Name, s.Chosen.Slot, s.ends(), s.Backup.Name, lost, s.Chosen.Slot, anyway)
}

// ends returns a text about where the backup and the survivor end.
func (s recovery) ends() string {
	member := "has not told which revision it has applied"
	if rev := s.Revisions[s.Chosen.Slot]; rev > 0 {
		member = fmt.Sprintf("has applied revision %d of generation %d (the rest of its log may hold more)",
			rev, s.Record.Generation)
	}
	return fmt.Sprintf("the backup ends at revision %d of generation %d, and the member %s",
		s.Backup.Content.Revision, s.Backup.Generation, member)
}

// raised returns by how much to raise the revision. It must exceed the revision of a backup that is given up, even of
// one that the store has lost, because clients may have seen that revision.
func (s recovery) raised(bump int64) int64 {
	applied, given := s.Revisions[s.Chosen.Slot], int64(0)
	if s.More == moreBackup {
		given = s.Backup.Content.Revision
	}
	if s.seen.Beyond(s.Record.Generation, applied) {
		given = max(given, s.seen.Revision)
	}
	return bump + max(0, given-applied)
}

// backup returns a text about the newest backup.
func (s recovery) backup(now time.Time) string {
	if s.NoBackup != "" {
		return "not known: " + s.NoBackup
	}
	if s.Backup == nil {
		return "none"
	}
	text := fmt.Sprintf("%s, %s old", s.Backup.Name, health.Age(now, s.Backup.Created))
	switch {
	case s.More == moreBackup:
		return text + ": it holds MORE than slot " + s.Chosen.Slot
	case s.More == moreSurvivor:
		return fmt.Sprintf("%s, revision %d of generation %d: slot %s holds as much or more "+
			"(`holdfast restore` would continue with the backup, and lose what came after)",
			text, s.Backup.Content.Revision, s.Backup.Generation, s.Chosen.Slot)
	case !s.Backup.Ordered():
		return text + ": it tells no generation and cannot be compared with a member"
	}
	return text
}

// text returns the survivors, and what will or would be done.
func (s recovery) text(survivor string, act bool) string {
	var b strings.Builder
	t := show.Table("SLOT", "NODE", "STATE", "TERM", "INDEX", "REVISION", "DISK", "")
	for _, v := range s.Slots {
		row := []any{v.Slot, cmp.Or(v.Node, "-"), survivorState(v), "-", "-", "-", cmp.Or(v.Disk, "-"), ""}
		if v.Here {
			row[3], row[4] = v.Log.Term, v.Log.Index
		}
		if rev := s.Revisions[v.Slot]; rev > 0 {
			row[5] = rev
		}
		if v.Best {
			row[7] = "most advanced"
		}
		t.AppendRow(row)
	}
	fmt.Fprintf(&b, "recovery of cluster %s, from generation %d to %d\n\n%s\n\n", s.Record.Cluster, s.Record.Generation,
		s.Record.Generation+1, t.Render())
	fmt.Fprintf(&b, "newest backup: %s\n", s.backup(time.Now()))
	if !s.Able || s.poorer(survivor) != nil {
		return b.String()
	}
	fmt.Fprintf(&b, "slot %s continues with all that its log holds; the others join it, and what their disks hold is "+
		"set aside\n", s.Chosen.Slot)
	if len(s.Declare) > 0 {
		fmt.Fprintf(&b, "%s must be declared lost: if one of them is alive after all, what it acknowledges alone is not in "+
			"the cluster\n", strings.Join(s.Declare, ", "))
		if s.Majority() {
			b.WriteString("but a majority of the voters is here: if their nodes reach each other, nothing has to be lost\n")
		}
	}
	if !act {
		fmt.Fprintf(&b, "\nnothing was changed; to do it: %s\n", s.command(survivor))
	}
	return b.String()
}

// command returns the command that carries out the recovery.
func (s recovery) command(survivor string) string {
	words := []string{"holdfast recover"}
	if len(s.Declare) > 0 {
		words = append(words, "--lost "+strings.Join(s.Declare, ","))
	}
	if survivor != "" {
		words = append(words, "--survivor "+survivor)
	}
	if needed := s.despites(); needed != "" && s.despite == needed {
		words = append(words, "--despite-backup "+needed)
	}
	if len(s.overrule) > 0 {
		words = append(words, "--overrule "+strings.Join(s.overrule, ","))
	}
	return strings.Join(append(words, "--yes"), " ")
}

// survivorState returns a text about what is left of a slot.
func survivorState(v plan.Survivor) string {
	switch {
	case v.Here && !v.Voter:
		return "learner"
	case v.Here && v.Runs:
		return "survivor"
	case v.Here, v.Idle:
		return "is here, does not run"
	case v.Gone:
		return "its disk has lost the data"
	case v.Node != "":
		return "without the voter's data"
	}
	return "no live holder"
}
