package cmd

import (
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/health"
)

// Which holds more, the survivor or the newest backup.
const (
	moreSurvivor = "survivor" // or both the same
	moreBackup   = "backup"
	moreUnknown  = "unknown" // the backups could not be listed
)

// despites is what --despite-backup has to say, "" if nothing.
func (s recovery) despites() string {
	switch s.More {
	case moreBackup:
		return s.Backup.Name
	case moreUnknown:
		return moreUnknown
	}
	return ""
}

// poorer refuses a recovery that ends before the newest backup, or may, unless the operator has named both: the survivor
// and what is given up for it (R16). It says how to keep more, and how to do it all the same.
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
			"  make the store answer, and ask again (`holdfast snapshot list`)\n"+
			"  to go on from slot %s whatever the backups hold: %s",
			wrong, s.Chosen.Slot, s.NoBackup, s.Chosen.Slot, anyway)
	}
	lost := ""
	if len(s.Declare) > 0 {
		lost = " --lost " + strings.Join(s.Declare, ",")
	}
	return fmt.Errorf("%sbackup %s holds more than slot %s: %s; nothing was changed\n"+
		"  to keep more, go on with the backup: give the lost slots blank disks, and run: holdfast restore %s%s\n"+
		"  to go on from slot %s all the same, and lose what only the backup holds: %s",
		wrong, s.Backup.Name, s.Chosen.Slot, s.ends(), s.Backup.Name, lost, s.Chosen.Slot, anyway)
}

// ends says where the backup and the survivor end.
func (s recovery) ends() string {
	member := "has not told which revision it has applied"
	if rev := s.Revisions[s.Chosen.Slot]; rev > 0 {
		member = fmt.Sprintf("has applied revision %d of generation %d (the rest of its log may hold more)",
			rev, s.Record.Generation)
	}
	return fmt.Sprintf("the backup ends at revision %d of generation %d, and the member %s",
		s.Backup.Content.Revision, s.Backup.Generation, member)
}

// backup says what there would be instead.
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
			"(`holdfast restore` would go on with the backup, and lose what came after)",
			text, s.Backup.Content.Revision, s.Backup.Generation, s.Chosen.Slot)
	case !s.Backup.Ordered():
		return text + ": it tells no generation and cannot be compared with a member"
	}
	return text
}
