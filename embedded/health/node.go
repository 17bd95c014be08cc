package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

const timeFormat = time.RFC3339

// stuck is how many seconds the coordinator may go without observing the world before its process counts as not live.
const stuck = 30.0

// longJoin is how long a member may be a learner before that is a finding.
const longJoin = 10 * time.Minute

// Judge finds what is wrong with a node by what it says of itself.
func (n *NodeStatus) Judge(now time.Time) []Finding {
	if !n.Reached {
		return nil
	}
	var all findings
	if n.Looked != nil && *n.Looked > stuck {
		all.add(LoopStuck, n.Node, "the main loop of %s has been stuck for %.0f s", n.Node, *n.Looked)
	}
	for _, f := range n.Found {
		f.Subject = cmp.Or(f.Subject, n.Node)
		all = append(all, f)
	}
	if n.Error != "" && !n.unable() {
		all.add(ActionFails, n.Node, "the last attempt to %s failed: %s", cmp.Or(string(n.Action), "act"), n.Error)
	}
	if text := n.Stalls(); text != "" {
		f := all.add(Stalled, n.Node, "%s", text)
		if n.Stall.Unwritten < fresh {
			f.then("Wait while it catches up. If it does not, open the peer port between the nodes, in both directions.")
		}
	}
	if r := n.Restore; r != nil {
		switch r.State {
		case RestoreUnable:
			all.add(RestoreStuck, n.Node, "%s", r.Text())
		case RestoreUnconfirmed: // nothing has begun, and the cluster serves as before
			all.add(RestoreOpen, n.Node, "%s", r.Text()).as(Warning)
		default:
			all.add(RestoreOpen, n.Node, "%s", r.Text())
		}
	}
	if n.State == "drained" {
		all.add(Drained, n.Node, "an operator drained %s %s ago, and its member is stopped", n.Node, Age(now, n.Since)).
			then("`holdfast undrain` on %s.", n.Node)
	}
	if n.State == "learner" && now.Sub(n.Since) > longJoin {
		all.add(LearnerSlow, n.Node, "the member of %s has been a learner for %s, and is still not in sync with the leader",
			n.Node, Age(now, n.Since))
	}
	if t := n.TLS; t != nil && t.Insecure {
		all.add(Insecure, n.Node,
			"other machines reach etcd on %s without TLS, and can read and write everything, as tls.insecure allows", n.Node)
	}
	n.disks(&all)
	n.database(&all)
	n.backups(&all, now)
	n.files(&all, now)
	return all
}

// unable reports whether the last action failed to prepare a restore. The restore's own finding says why.
func (n *NodeStatus) unable() bool {
	return n.Action == plan.Prepare && n.Restore != nil && n.Restore.State == RestoreUnable
}

// Local finds what is wrong with a node and, as far as its own member knows, with the cluster, without asking any other
// node. slots are the configured slots if the node has not looked yet.
func (n *NodeStatus) Local(slots []string, now time.Time) []Finding {
	all := findings(n.Judge(now))
	s := ClusterStatus{Nodes: []NodeStatus{*n}, Record: n.Record, Paused: n.Paused, Lock: n.Lock}
	s.Rotation = openRotation(s.Nodes)
	if n.Wanted != nil {
		slots = n.Wanted
	}
	if n.Record != nil {
		slots = s.Slots()
	}
	own := judged{ClusterStatus: &s, slots: slots, now: now}
	own.judgeAlarms(&all)
	own.judgeMembers(&all)
	own.judgeDowngrade(&all)
	own.judgeRotation(&all)
	all = append(all, JudgeIssued(own.issued(), now)...)
	own.judgeOperator(&all)
	if e := n.Etcd; e != nil && e.Leaderless != nil {
		text := fmt.Sprintf("the member of %s has had no leader for %.0f s", n.Node, *e.Leaderless)
		near, voters := n.reachedVoters()
		switch cut := voters > 0 && near <= voters/2; {
		case cut && !n.Early:
			all.add(QuorumLost, "", "%s, and reaches %d of %d voters, itself included", text, near, voters)
		case *e.Leaderless >= longElection:
			all.add(QuorumLost, "", "%s", text)
		default:
			all.add(Electing, "", "%s", text)
		}
	}
	return ordered(all)
}

// reachedVoters returns how many voters the node's member reaches, itself included, and how many there are.
func (n *NodeStatus) reachedVoters() (near, voters int) {
	if n.Checkup == nil {
		return 0, 0
	}
	all := plan.Voters(n.Checkup.Members)
	for _, m := range all {
		near += boolCount(m.ID == n.Checkup.Member || slices.Contains(n.Checkup.Near, m.ID))
	}
	return near, len(all)
}

func (n *NodeStatus) database(out *findings) {
	m, u := n.Etcd, n.Upkeep
	if m == nil || u == nil {
		return
	}
	const week = 7
	switch {
	case u.Full:
		f := out.add(DatabaseFull, n.Node, "the database of %s takes %s of its quota of %s, %s of it in use%s%s", n.Node,
			Bytes(m.Size), Bytes(m.Quota), Bytes(m.InUse), GrowthText(u.Growth), u.Advice)
		if u.Fragmented || m.Alarmed(plan.NoSpace) {
			f.then("`holdfast status --why`: room may be made without deleting keys.")
		}
	case u.Growth != nil && *u.Growth > 0 && m.InUse+week**u.Growth > m.Quota:
		out.add(DatabaseGrows, n.Node, "the live data of %s takes %s of a quota of %s%s, so it will be full within a week",
			n.Node, Bytes(m.InUse), Bytes(m.Quota), GrowthText(u.Growth))
	}
	switch d := u.Last; {
	case d != nil && d.Error != "":
		out.add(DefragFails, n.Node, "the last defragmentation on %s failed, %d so far: %s", n.Node, u.Failures, d.Error)
	case u.Fragmented && n.Paused != nil:
		out.add(DefragPaused, n.Node,
			"of the %s of the database of %s only %s are in use, and the pause prevents its defragmentation", Bytes(m.Size),
			n.Node, Bytes(m.InUse))
	}
}

// GrowthText says by how much live data grows in a day, "" if that is not known.
func GrowthText(perDay *int64) string {
	switch {
	case perDay == nil:
		return ""
	case *perDay < 0:
		return fmt.Sprintf(", %s less each day", Bytes(-*perDay))
	}
	return fmt.Sprintf(", %s more each day", Bytes(*perDay))
}

// backups judges the status of a node's backup keeper. Only the leading one's schedule is judged.
func (n *NodeStatus) backups(out *findings, now time.Time) {
	b := n.Backup
	if b == nil {
		return
	}
	if len(b.Spooled) > 0 {
		out.add(BackupSpooled, n.Node, "only on %s, and not in the store: %s", n.Node,
			Count(int64(len(b.Spooled)), "backup"))
	}
	if p := b.Prune; p != nil && (p.Error != "" || len(p.Kept) > 0) {
		out.add(PruneFails, n.Node, "%s", p.Text())
	}
	if b.StoreError != "" {
		out.add(StoreSilent, n.Node, "%s cannot list the store: %s", n.Node, b.StoreError)
	}
	if !b.Leading {
		return
	}
	switch {
	case b.Failures > 0:
		out.add(BackupFails, n.Node, "backups fail, %d in a row so far: %s", b.Failures, b.Error)
	case b.Overdue && !b.Saving.IsZero():
		out.add(BackupOverdue, "", "the newest verified backup is older than the schedule allows, and %s has been saving "+
			"one for %s", n.Node, Age(now, b.Saving)).
			then("If that takes too long, the store or a disk hangs: check snapshot.store, snapshot.spool, snapshot.scratch, "+
				"and the log of %s.", n.Node)
	case b.Overdue && b.Drill != nil && b.Drill.Running != "":
		out.add(BackupOverdue, "", "the newest verified backup is older than the schedule allows, and %s still drills %s",
			n.Node, b.Drill.Running).
			then("If that takes too long, the disk of snapshot.scratch hangs: see the log of %s.", n.Node)
	case b.Overdue:
		out.add(BackupOverdue, "", "the newest verified backup is older than the schedule allows")
	case b.Due.IsZero():
		out.add(BackupUnwanted, n.Node, "no backup is planned")
	}
	if d := b.Drill; d != nil && d.Error != "" {
		out.add(DrillFails, n.Node, "backup %s could not be restored by a drill: %s", d.Name, d.Error)
	} else if d != nil && d.Untried != "" {
		out.add(DrillUntried, n.Node, "the last drill could not be tried: %s", d.Untried)
	}
	if b.Skipped != "" {
		out.add(BackupBad, n.Node, "%s", b.SkippedText())
	}
	if b.Doubt != "" {
		out.add(BackupDoubt, n.Node, "%s; if the cluster or its majority is lost, nothing is restored or recovered "+
			"automatically while that is so", b.Doubt)
	}
}

const (
	expiresSoon = 30 * 24 * time.Hour
	expiresNow  = 7 * 24 * time.Hour
)

// files judges the certificates and the secrets that the configuration of a node names.
func (n *NodeStatus) files(out *findings, now time.Time) {
	if n.Checkup == nil {
		return
	}
	for _, file := range n.Checkup.Files {
		if f := file.judge(now); f != nil {
			f.Subject = fmt.Sprintf("%s on %s", file.Path, n.Node)
			*out = append(*out, *f)
		}
	}
}

// judge returns what is wrong with a file, nil if nothing is.
func (f File) judge(now time.Time) *Finding {
	switch {
	case f.Err != "":
		return found(FileUnread, "%s cannot be read: %s", f.Key, f.Err)
	case f.Kind == Secret && f.Mode&0o077 != 0:
		return found(SecretOpen,
			"%s is open to other users of the machine (mode %04o), who can act as this node or read its backups; its process "+
				"would not start again", f.Key, uint32(f.Mode)).
			then("`chmod go= %s`, and replace the key if others have accounts there.", f.Path)
	case f.Kind == Secret || len(f.Certs) == 0:
		return nil
	case f.Kind == IssuedCertificate:
		return f.Certs[0].overdue(f.Key, now)
	}
	worst := slices.MinFunc(f.Certs, func(a, b Certificate) int { return a.left(now).Compare(b.left(now)) })
	wrong := worst.judge(f.Key, now)
	if wrong == nil || f.Kind != Authorities {
		return wrong
	}
	replaced := slices.ContainsFunc(f.Certs, func(c Certificate) bool { return c.judge(f.Key, now) == nil })
	if replaced { // this is normal for a while
		wrong.as(Warning)
	}
	switch {
	case worst.From.After(now): // the clock is wrong
	case replaced:
		wrong.then("Remove it from the file when no client uses it any more. With tls.mode auto, its rotation " +
			"does that: `holdfast tls show` says which clients still use it.")
	default:
		wrong.then("Put a new authority into the file beside it: the members restart with it by themselves (docs/tls.md). " +
			"With tls.mode auto, a rotation does that: `holdfast tls show` says what it waits for.")
	}
	return wrong
}

// overdue judges a certificate that holdfast itself should have renewed.
func (c Certificate) overdue(key string, now time.Time) *Finding {
	const cure = "`holdfast status` says why the node could not renew it."
	switch left := c.Until.Sub(now); {
	case c.From.After(now):
		return c.early(key)
	case left > c.Until.Sub(c.From)/4:
		return nil
	case left <= 0:
		return c.ended(key).then(cure)
	}
	return found(CertificateEnds,
		"%s: %s should have been renewed at two thirds of its life, and expires in %s, at %s; then connections are refused",
		key, c.Subject, Age(c.Until, now), c.Until.UTC().Format(timeFormat)).then(cure)
}

// left returns until when a certificate can be used; the zero time if it is not valid yet.
func (c Certificate) left(now time.Time) time.Time {
	if c.From.After(now) {
		return time.Time{}
	}
	return c.Until
}

func (c Certificate) judge(key string, now time.Time) *Finding {
	life := c.Until.Sub(c.From) // this may be hours, if a program renews it
	left := c.Until.Sub(now)
	switch {
	case c.From.After(now):
		return c.early(key)
	case left <= 0:
		return c.ended(key)
	case left >= min(expiresSoon, life/2):
		return nil
	}
	f := found(CertificateEnds, "%s: %s expires in %s, at %s; then connections are refused", key, c.Subject,
		Age(c.Until, now), c.Until.UTC().Format(timeFormat))
	if left < min(expiresNow, life/10) {
		f.as(Degrading)
	}
	return f
}

func (c Certificate) early(key string) *Finding {
	return found(CertificateEnded, "%s: %s is valid only from %s on, and is refused until then", key, c.Subject,
		c.From.UTC().Format(timeFormat)).then("Look at the clocks of this machine, and of the one that has made it.")
}

func (c Certificate) ended(key string) *Finding {
	return found(CertificateEnded, "%s: %s expired at %s: peers and clients that check it refuse the connection", key,
		c.Subject, c.Until.UTC().Format(timeFormat))
}

// FullAdvice says what to do about a full database, "" if the cure of NOSPACE already says it.
func FullAdvice(u plan.Upkeep, m plan.Member) string {
	switch {
	case m.Alarmed(plan.NoSpace) && u.Cure:
		return ""
	case u.Roomy(m.Space):
		return ": what is free is used before the file grows"
	}
	return ": delete keys, or raise etcd.quota-backend-bytes on all nodes"
}
