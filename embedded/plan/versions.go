package plan

import (
	"cmp"
	"fmt"
)

// minor is a version of etcd without its patch level: members of the same minor are alike to each other.
type minor struct{ major, minor int }

func minorOf(version string) (m minor, known bool) {
	n, _ := fmt.Sscanf(version, "%d.%d", &m.major, &m.minor)
	return m, n == 2
}

// older reports whether etcd a is of an earlier minor than b. What is not known is not older.
func older(a, b string) bool {
	x, one := minorOf(a)
	y, two := minorOf(b)
	return one && two && cmp.Or(cmp.Compare(x.major, y.major), cmp.Compare(x.minor, y.minor)) < 0
}

// outdated says why etcd here must not be started in a generation: its cluster is at a version above it, and it would
// panic as soon as it learns that. The data on the disk may not tell yet what members that run do.
func (o resuming) outdated(r *Record) Said {
	for _, p := range o.live() {
		f := p.Facts
		if f == nil || !f.Running || !f.of(r) || !older(o.Config.Etcd, f.Agreed) {
			continue
		}
		m, _ := minorOf(f.Agreed)
		why := say("slot %s does not start: as node %s says the cluster is at etcd %s, and this holdfast embeds %s, which "+
			"cannot open its data: run one with etcd %d.%d or newer here",
			o.Claim.Slot, p.Node, f.Agreed, o.Config.Etcd, m.major, m.minor)
		if ours, _ := minorOf(o.Config.Etcd); ours.major == m.major && ours.minor == m.minor-1 {
			why = say("%s, or %s on a running node first", why, command("downgrade --to %d.%d", ours.major, ours.minor))
		}
		return why
	}
	return Said{}
}

// mixed says that the voters run different minors of etcd, as they do during an upgrade or a downgrade, "" if they do
// not. Then no member is added, removed or replaced: each step of that and of the upgrade is safe alone, both together
// have been tried by nobody. A learner that was admitted before is promoted all the same.
func (o upkeep) mixed() string {
	for _, p := range o.live() {
		f := p.Facts
		if f == nil || !f.Running || !f.of(o.Disk.Ledger.Record) || !o.voter(f.Member) {
			continue
		}
		if older(f.Etcd, o.Config.Etcd) || older(o.Config.Etcd, f.Etcd) {
			return fmt.Sprintf("%s runs etcd %s and %s %s: the member list stays as it is until the minors are the same", p.Node,
				f.Etcd, o.Node, o.Config.Etcd)
		}
	}
	return ""
}

// voter reports whether a member is one, as far as applied here.
func (o upkeep) voter(id uint64) bool {
	for _, m := range o.Member.Members {
		if m.ID == id {
			return !m.Learner
		}
	}
	return false
}
