package plan

import (
	"cmp"
	"strings"
)

// BackupStand is what the newest verified backup of the cluster holds, by generation and then by revision. Backups that
// do not name a generation do not count.
type BackupStand struct {
	Unknown    string `json:"unknown,omitempty"` // not empty: the backups could not be listed, and why
	Name       string `json:"name,omitempty"`    // "": there is no such backup
	Generation uint64 `json:"generation,omitempty"`
	Revision   int64  `json:"revision,omitempty"`
}

// Beyond reports whether the backup holds more than data of a generation that has applied a revision. The log behind
// the data may hold more than is applied. So for a survivor this errs on the side of the backup.
func (s BackupStand) Beyond(generation uint64, revision int64) bool {
	return s.Name != "" && cmp.Or(cmp.Compare(s.Generation, generation), cmp.Compare(s.Revision, revision)) > 0
}

// backupBeyond says that the newest backup holds more than the member here, and how to continue from it. It says
// nothing if the backup does not hold more, or is not known.
func (o proposals) backupBeyond(lost []string) Said {
	s, r := o.Store.Newest, o.Disk.Ledger.Record
	if s == nil || s.Unknown != "" || r == nil || !s.Beyond(r.Generation, o.Member.Revision) {
		return Said{}
	}
	return say("backup %s (generation %d, revision %d) holds more than slot %s, which has applied revision %d of "+
		"generation %d: to continue with the backup, bring blank disks and run %s", s.Name, s.Generation, s.Revision,
		o.Claim.Slot, o.Member.Revision, r.Generation, command("restore %s --lost %s", s.Name, strings.Join(lost, ",")))
}

// backupUnknown says why it is not known whether the newest backup holds more than the member here, "" if it is known.
func (o proposals) backupUnknown() string {
	switch s := o.Store.Newest; {
	case s == nil:
		return "the store has not been asked for the newest backup yet"
	case s.Unknown != "":
		return "the newest backup is not known: " + s.Unknown
	}
	return ""
}
