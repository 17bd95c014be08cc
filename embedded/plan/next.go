package plan

import "fmt"

// Next decides. The order of the checks is that of R6 and R1 in docs/protocol.md: who we are, whether another process
// is also us, what we have, and only then what might be founded.
func Next(obs Observation) Action {
	o := look(&obs)
	switch {
	case o.Twin != "" && !o.Member.Running:
		return wait("another live process calls itself %s, at %s: each node needs its own node.name, and a copy of a disk "+
			"must not start; waiting until it is gone", o.Node, o.Twin)
	case !o.Claim.Held && o.Parked:
		return wait("an operator has released the volume of this node: it claims none until it is restarted")
	case !o.Claim.Held:
		return claiming(o).acquire()
	case o.Drained && !o.Member.Running:
		return wait("slot %s is drained by an operator: %s, or a restart of this process, starts etcd again", o.Claim.Slot,
			Command("undrain"))
	case o.missesDisk():
		return wait("%s: its file system is probably not mounted; mount it, and slot %s resumes with its data; only if "+
			"that disk is lost for good, run %s: the slot then begins with a blank one",
			o.Claim.Missing, o.Claim.Slot, setVolumeAside)
	case o.Claim.Mismatch != "":
		return wait("the volume of slot %s is not what it says it is: %s; nothing is touched; if its content may be set "+
			"aside, run %s", o.Claim.Slot, o.Claim.Mismatch, setVolumeAside)
	case o.Disk.Unknown != "":
		return wait("the volume of slot %s cannot be read: %s", o.Claim.Slot, o.Disk.Unknown)
	case o.Disk.Superseded != "" && !o.Member.Running:
		return wait("the data on slot %s is out of date, and is not started: %s; to take that cluster over, move etcd, "+
			"origin.json and founding.json away from the volume", o.Claim.Slot, o.Disk.Superseded)
	case o.Disk.Ledger.Started != "" && o.Disk.Ledger.Started != o.Claim.Disk:
		return wait("the founding ledger on slot %s is that of another disk (%s, this is %s): was the directory copied? "+
			"if its content may be set aside, run %s", o.Claim.Slot, o.Disk.Ledger.Started, o.Claim.Disk, setVolumeAside)
	case o.Disk.Ledger.Record == nil && (o.Member.Running || o.Member.Removed):
		return wait("etcd has run on slot %s, but its disk has no record of a cluster: nothing is touched; stop this "+
			"node and look at the disk", o.Claim.Slot)
	case o.Disk.Ledger.forgetful():
		return wait("the founding ledger on slot %s shows that the disk took part in a cluster, but not in which: nothing "+
			"is touched; bring the file back, or, if the content may be set aside, run %s", o.Claim.Slot, setVolumeAside)
	case o.Member.Running && o.changing():
		return succession(o).change()
	case o.Member.Removed && !o.changing():
		return resuming(o).setAside("")
	case o.Member.Running && o.outlived():
		later, _ := o.latest()
		return Action{Kind: SetAside, Record: later,
			Why: fmt.Sprintf("%s can never have a leader, because its founders continued as %s: the data, which nobody ever "+
				"wrote to, is set aside and slot %s joins that", o.Disk.Ledger.Record.Token(), later.Token(), o.Claim.Slot)}
	case o.Member.Running:
		return securing(o).beside(proposals(o).beside(steady(o).serve()))
	case o.Disk.WAL && o.Disk.Ledger.Record != nil && !o.changing() && o.dismissedBy(o.Disk.Member) != "":
		return resuming(o).setAside(o.dismissedBy(o.Disk.Member))
	case o.Disk.Ledger.Left != nil && o.Disk.Ledger.Record != nil && !o.changing():
		return proposals(o).beside(succession(o).awaitOutcome())
	case resuming(o).otherMember() != "":
		return wait("the etcd data on slot %s is not that of its own member: it is that of %s; was the directory copied? "+
			"nothing is touched; if it may be set aside, run %s", o.Claim.Slot, resuming(o).otherMember(), setVolumeAside)
	}
	if a := claiming(o).rivalry(); a.Kind != "" {
		return a
	}
	switch {
	// A disk on which this process has just founded the cluster is no copy.
	case o.Early && o.Disk.Ledger.Record != nil && !o.Disk.Fresh && !o.heardAll():
		return wait("slot %s listens for a moment whether another node runs it%s", o.Claim.Slot,
			o.whoRuns(o.Disk.Ledger.Record))
	case resuming(o).unheardLeader() != "" && o.Early:
		return wait("slot %s listens for a moment for the leader that node %s has, which may know how far this disk had come",
			o.Claim.Slot, resuming(o).unheardLeader())
	case o.changing():
		return succession(o).change()
	case o.Disk.Origin != nil && o.Disk.Ledger.Record == nil:
		return adopting(o).adopt()
	case o.Disk.WAL:
		return resuming(o).resume()
	case o.Disk.Ledger.Record != nil:
		return proposals(o).beside(resuming(o).enter())
	default:
		return proposals(o).beside(founding(o).begin())
	}
}
