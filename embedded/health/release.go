package health

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"

	"holdfast/embedded/plan"
)

// Release is what a node says of giving its member back to the program from which the cluster was taken over.
type Release struct {
	Slot    string       `json:"slot"`
	Program plan.Program `json:"program"`
	To      string       `json:"to"`              // version of the etcd that will run it
	Cluster string       `json:"cluster_version"` // the version that the cluster has agreed on
	Why     []string     `json:"why,omitempty"`   // why it is refused
	Soon    bool         `json:"soon,omitempty"`  // one of the reasons disappears by itself within seconds
	Notes   []string     `json:"notes,omitempty"` // what to know before
	// Risk says why the member cannot go down now, "" if it can. The reason may disappear in a moment.
	Risk     string   `json:"risk,omitempty"`
	Released bool     `json:"released"`         // the data is ready for the other program, and etcd is stopped
	Backup   string   `json:"backup,omitempty"` // the verified backup that the release relies on
	Path     string   `json:"path,omitempty"`   // of the volume
	Data     string   `json:"data,omitempty"`   // for plain etcd: its --data-dir
	Rest     []string `json:"rest,omitempty"`   // nodes that still run members, in the order in which to release them
	// Unknown lists the slots whose member may have been given back, or whose node does not answer, each with its last
	// known node.
	Unknown []string `json:"unknown,omitempty"`
}

// Releasing is what a node knows of itself and of its store when it is asked to release its member.
type Releasing struct {
	Origin  *plan.Origin   // of the data on its volume; nil if holdfast has filled the disk
	Adopted *plan.Adoption // from the record; nil if holdfast founded the cluster
	Path    string         // of its volume
	Data    string         // of holdfast's data directory there
	Token   string         // of the cluster, in etcd-manager's file state
	Names   []string       // in etcd-manager's file state, nil if it cannot be read
	Problem string         // why the file state cannot be read
	Own     string         // the member's name
	Etcd    *EtcdStatus    // its member; nil if none runs
	To      string         // version of the etcd that will run it, "" for that in the file state
	Was     string         // the version in the file state
	Secured string         // pattern of peer URLs with TLS that it serves instead of its record's; "" if it serves those
	Voters  int
	Foreign int // voters that raft is connected to and that no node runs
	// Manager says that the backups are in etcd-manager's format. Then the store tells etcd-manager what to do; the
	// rest is read from it.
	Manager      bool
	Spec         string // version in etcd-manager's spec; "" if there is none
	SpecMembers  int
	Commands     []string
	StoreProblem string // why the store cannot be read
}

// AssessRelease judges whether the asked node may release its member. It leaves Risk to a caller that asks the leader.
func AssessRelease(s ClusterStatus, in Releasing) Release {
	r := Release{To: in.To}
	switch {
	case in.Origin != nil:
		r.Program, r.Data = in.Origin.Program, in.Path
	case in.Adopted != nil: // a replacement disk, which the other members have filled
		r.Program, r.Data = in.Adopted.From(), in.Data
	default:
		r.refuse("this volume never held another program's data, so there is nothing to give back; `holdfast " +
			"restore --to` writes a data directory for any etcd from a backup")
		return r
	}
	manager := r.Program == plan.EtcdManager
	if manager {
		r.Data = ""
	}
	if in.Origin != nil && in.Origin.Obstacle != "" && (!manager || in.Problem == "") { // otherwise manager says more
		r.refuse("%s", in.Origin.Obstacle)
	}
	switch {
	case in.Secured != "" && manager:
		r.refuse("the members go from http to https (%s), and etcd-manager would run this one at its old peer URL, "+
			"where no member would find it", in.Secured)
	case in.Secured != "":
		r.Notes = append(r.Notes, fmt.Sprintf("members find each other at %s: the other etcd needs that in its flags, and "+
			"the certificates", in.Secured))
	}
	if r.To == "" {
		r.To = in.Was
	}
	if in.Etcd == nil {
		r.refuse("no member runs here, and its versions are needed: run `holdfast undrain`, or wait until it serves")
		return r
	}
	r.Cluster = in.Etcd.ClusterVersion
	if in.Etcd.Learner {
		r.refuse("the member is still a learner, which etcd does not start without a leader's consent: wait until " +
			"it is a voter")
	}
	for _, n := range leaderLast(slices.Clone(s.Nodes), NodeStatus.runsLeader) {
		if n.Reached && n.Etcd != nil && n.Node != s.Asked {
			r.Rest = append(r.Rest, n.Node)
		}
	}
	r.Unknown = s.unheard()
	r.versions(s, in)
	if manager {
		r.manager(s, in)
	}
	return r
}

// unheard returns the slots that no answering node holds.
func (s ClusterStatus) unheard() (unknown []string) {
	if s.Record == nil {
		return nil
	}
	for _, slot := range s.Slots() {
		last, heard := "", false
		for _, n := range s.Nodes {
			if n.Volume != nil && n.Volume.Slot == slot {
				last, heard = n.Node, heard || n.Reached
			}
		}
		switch {
		case heard:
		case last == "":
			unknown = append(unknown, "slot "+slot)
		default:
			unknown = append(unknown, fmt.Sprintf("slot %s (%s)", slot, last))
		}
	}
	return unknown
}

// stateElsewhere returns the path of etcd-manager's file state on another member's machine, in the form that scp takes.
func (s ClusterStatus) stateElsewhere() string {
	for _, n := range s.Nodes {
		if n.Reached && n.Node != s.Asked && n.Etcd != nil && n.Volume != nil && n.Volume.Path != "" {
			return n.Node + ":" + filepath.Join(n.Volume.Path, "state")
		}
	}
	return "MACHINE:VOLUME/state"
}

func (r *Release) refuse(format string, args ...any) {
	r.Why = append(r.Why, fmt.Sprintf(format, args...))
}

// versions checks whether the new etcd can open the data and run in the cluster.
func (r *Release) versions(s ClusterStatus, in Releasing) {
	if r.To == "" {
		r.refuse("say which etcd will run here: --to-etcd, for example 3.6.12")
		return
	}
	if _, err := semver.NewVersion(r.To); err != nil {
		r.refuse("--to-etcd: must be a version of etcd, as 3.6.12, got %q", r.To)
		return
	}
	to, _ := plan.MinorOf(r.To)
	agreed, known := plan.MinorOf(r.Cluster)
	if !known {
		r.refuse("the cluster has not agreed on a version yet: ask again in a few seconds")
		r.Soon = true
		return
	}
	down := fmt.Sprintf("bring the cluster down first: `holdfast downgrade --to %s`", to)
	if to.Major == agreed.Major && to.Minor+1 < agreed.Minor {
		down = fmt.Sprintf("a downgrade goes one minor at a time, to %d.%d: release it to that etcd", agreed.Major,
			agreed.Minor-1)
	}
	stored, known := plan.MinorOf(in.Etcd.StorageVersion)
	downgraded, _ := plan.MinorOf(in.Etcd.Downgrade)
	switch {
	case to.Older(agreed):
		r.refuse("the cluster is at etcd %s, and etcd %s cannot run in it: %s", r.Cluster, r.To, down)
	case !known: // a member that has just started does not report it yet
		r.refuse("the version of the data here is not known yet: ask again in a few seconds")
		r.Soon = true
	case to.Older(stored):
		r.refuse("the data here is still that of etcd %s, which etcd %s cannot open: wait a few seconds, or %s",
			in.Etcd.StorageVersion, r.To, down)
	case agreed.Major != to.Major || to.Minor > agreed.Minor+1:
		r.refuse("the cluster is at etcd %s, and members more than one minor apart cannot be in one cluster with etcd %s",
			r.Cluster, r.To)
	case in.Foreign == 0 && downgraded != to && rises(s, to):
		r.refuse("every member runs an etcd newer than %s, so the cluster would rise above it: %s", r.To, down)
	}
}

// rises reports whether every member that runs here has an etcd above a minor version.
func rises(s ClusterStatus, to plan.Minor) bool {
	for _, n := range s.Nodes {
		if !n.Reached || n.Etcd == nil {
			continue
		}
		if v, known := plan.MinorOf(n.Etcd.Version); !known || !to.Older(v) {
			return false
		}
	}
	return true
}

// manager checks whether etcd-manager would continue with the cluster as it is.
func (r *Release) manager(s ClusterStatus, in Releasing) {
	switch {
	case in.Problem != "":
		r.refuse("%s: copy the file `state`, which is the same on all members, from the volume of one that was taken over "+
			"or given back, and release again: `scp %s %s`", in.Problem, s.stateElsewhere(), filepath.Join(in.Path, "state"))
	case in.Adopted != nil && in.Adopted.Token != "" && in.Token != in.Adopted.Token:
		r.refuse("etcd-manager's file %s is of the cluster %s, and this is %s: replace it by that of another member: `scp "+
			"%s %[1]s`", filepath.Join(in.Path, "state"), in.Token, in.Adopted.Token, s.stateElsewhere())
	case !slices.Contains(in.Names, in.Own):
		r.refuse("etcd-manager's file state does not name member %s, but %s: etcd-manager would not find itself there",
			in.Own, strings.Join(in.Names, ", "))
	}
	if !in.Manager {
		r.Notes = append(r.Notes, "snapshot.format is not etcd-manager: check that etcd-manager's store has "+
			"control/etcd-cluster-created; without it, etcd-manager founds an empty cluster over this one")
		return
	}
	if in.StoreProblem != "" {
		r.refuse("it is unknown whether the store has etcd-manager's mark, without which etcd-manager founds an "+
			"empty cluster over this one: %s", in.StoreProblem)
		return
	}
	if len(in.Commands) > 0 {
		r.refuse("a command is queued in the store (%s), and etcd-manager would carry it out while the cluster is mixed, "+
			"which splits it: `etcd-manager-ctl delete-command`", strings.Join(in.Commands, ", "))
	}
	switch spec, known := plan.MinorOf(in.Spec); {
	case in.Spec == "":
	case !known:
		r.refuse("etcd-manager's spec in the store names etcd %q, which is not a version: correct it first", in.Spec)
	default:
		if to, known := plan.MinorOf(r.To); known && spec.Older(to) {
			r.refuse("etcd-manager's spec in the store says etcd %s, and to go down from %s etcd-manager stops the whole "+
				"cluster and rebuilds it from its keys: set the version there to %s first", in.Spec, r.To, r.To)
		} else if in.Spec != r.To {
			r.Notes = append(r.Notes, fmt.Sprintf("etcd-manager's spec in the store says etcd %s: it moves there "+
				"from %s by itself once it runs every member", in.Spec, r.To))
		}
	}
	if in.Spec != "" && in.SpecMembers < in.Voters {
		r.refuse("etcd-manager's spec in the store says %d members, but there are %d: it would remove some; correct it "+
			"first", in.SpecMembers, in.Voters)
	}
}
