package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Minor is a version of etcd without its patch level. Members of the same minor version behave alike.
type Minor struct{ Major, Minor int }

// MinorOf parses a version, which may lack its patch level. known is false if it is not a version.
func MinorOf(version string) (m Minor, known bool) {
	fields := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(fields) < 2 {
		return Minor{}, false
	}
	major, err1 := strconv.ParseUint(fields[0], 10, 31)
	minor, err2 := strconv.ParseUint(fields[1], 10, 31)
	return Minor{int(major), int(minor)}, err1 == nil && err2 == nil
}

// String is "3.7".
func (m Minor) String() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// Older reports whether m is earlier than another.
func (m Minor) Older(than Minor) bool {
	return cmp.Or(cmp.Compare(m.Major, than.Major), cmp.Compare(m.Minor, than.Minor)) < 0
}

// Adjacent reports whether next directly follows m. Members more than one minor apart cannot be in one cluster.
func (m Minor) Adjacent(next Minor) bool { return m.Major == next.Major && m.Minor+1 == next.Minor }

// Older reports whether etcd a is of an earlier minor than b. An unknown version is not older.
func Older(a, b string) bool {
	x, one := MinorOf(a)
	y, two := MinorOf(b)
	return one && two && x.Older(y)
}

// tooOld says why etcd must not be started here in a generation: its cluster is at a newer version, and etcd would
// panic as soon as it learns that. The data on the disk may not show yet what running members do.
func (o resuming) tooOld(r *Record) Said {
	for _, p := range o.live() {
		f := p.Facts
		if f == nil || !f.Running || !f.of(r) || !Older(o.Config.Etcd, f.Agreed) {
			continue
		}
		m, _ := MinorOf(f.Agreed)
		why := say("slot %s does not start: node %s says that the cluster is at etcd %s, and this holdfast embeds %s, which "+
			"cannot open its data: run one with etcd %s or newer here",
			o.Claim.Slot, p.Node, f.Agreed, o.Config.Etcd, m)
		if ours, _ := MinorOf(o.Config.Etcd); ours.Adjacent(m) {
			why = say("%s, or %s on a running node first", why, command("downgrade --to %s", ours))
		}
		return why
	}
	return Said{}
}

// mixed says that the voters run different minors of etcd, as during an upgrade or a downgrade; "" if they do not. Then
// no member is added, removed or replaced: each such step is safe alone, and so is an upgrade, but the combination is
// untested. A learner that was admitted before is still promoted.
func (o upkeep) mixed() string {
	for _, p := range o.live() {
		f := p.Facts
		if f == nil || !f.Running || !f.of(o.Disk.Ledger.Record) || !o.voter(f.Member) {
			continue
		}
		if Older(f.Etcd, o.Config.Etcd) || Older(o.Config.Etcd, f.Etcd) {
			return fmt.Sprintf("%s runs etcd %s and %s %s: the member list stays as it is until the minors are the same", p.Node,
				f.Etcd, o.Node, o.Config.Etcd)
		}
	}
	return ""
}

// voter reports whether a member is a voter, as applied here.
func (o upkeep) voter(id uint64) bool {
	for _, m := range o.Member.Members {
		if m.ID == id {
			return !m.Learner
		}
	}
	return false
}
