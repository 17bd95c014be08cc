package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.etcd.io/etcd/api/v3/version"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/layout"
)

// Origin says to which cluster the data belongs that another program left on a volume; nil if there is none. The answer
// is the same before and after TakeUp. Origin changes nothing. The error is errLocked while an etcd, even one in this
// process, uses the data. Data that cannot be read at all is an error. Data that was read and cannot be taken up has an
// Obstacle.
func (d Disk) Origin(volume string) (*plan.Origin, error) {
	return identify(volume, func(dir string, o *plan.Origin) error {
		by, err := layout.RunningIn(dir)
		if err == nil && by != "" {
			err = fmt.Errorf("%w: etcd works on %s", errLocked, by)
		}
		if err != nil {
			return err
		}
		m, err := ReadMemberships(dir)
		if errors.Is(err, errLocked) || unreadable(err) {
			return err
		}
		if err != nil {
			_ = d.identifyByLog(dir, o)                              // any version of etcd has the IDs there
			if o.Obstacle = err.Error(); !errors.Is(err, errNewer) { // that error needs no further advice
				o.Obstacle += fmt.Sprintf("; `holdfast takeover check %s` examines it", volume)
			}
			return nil
		}
		o.Cluster, o.Member, o.Version = m.Cluster, m.Member, m.ClusterVersion
		var urls []string
		o.Members, urls = d.elders(m)
		o.Obstacle = strings.Join(append(m.obstacles(dir), urls...), "; ")
		return nil
	})
}

// identify completes what is known of another program's data on a volume, unless there is none, or an obstacle.
func identify(volume string, complete func(dir string, o *plan.Origin) error) (*plan.Origin, error) {
	f, err := findForeign(volume)
	if err != nil || f == nil {
		return nil, err
	}
	if f.Obstacle == "" {
		if err := complete(f.dir, &f.Origin); err != nil {
			return nil, fmt.Errorf("identify the data on %s: %w", volume, err)
		}
	}
	return &f.Origin, nil
}

// Left says what another program left on a volume, as far as that is visible while an etcd uses it. That is the
// program, the path of its data, its token, and the IDs in the log. Members and Version stay empty, because they are in
// the database. It returns nil if there is no such data. Obstacle says what would prevent its use. Left changes
// nothing.
func (d Disk) Left(volume string) (*plan.Origin, error) { return identify(volume, d.identifyByLog) }

// identifyByLog sets the IDs that the log in a data directory has.
func (d Disk) identifyByLog(dir string, o *plan.Origin) error {
	found, err := d.Inspect(dir)
	if err == nil {
		o.Cluster, o.Member = found.ClusterID, found.Member
	}
	return err
}

// Told completes what Left said of a volume with what etcd says of the cluster, which may still run on that volume.
// version is the one that the members have agreed on, "" if it is not known. wrong lists what prevents taking the data
// up. Told reads nothing.
func (d Disk) Told(left plan.Origin, members []ListedMember, version string) (o plan.Origin, wrong []string) {
	o = left
	m := &Memberships{Member: o.Member, Cluster: o.Cluster, V3: members, ClusterVersion: version}
	o.Version = version
	o.Members, wrong = d.elders(m)
	return o, append(m.obstacles(o.Path), wrong...)
}

// unreadable reports whether the disk could not deliver a file that exists.
func unreadable(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !layout.Absent(err)
}

// elders returns the members in the database, and what is wrong with their peer URLs.
func (d Disk) elders(m *Memberships) (elders []plan.Elder, wrong []string) {
	slots := map[string]uint64{}
	for _, l := range m.V3 {
		e := plan.Elder{ID: l.ID, Name: l.Name, Learner: l.Learner}
		who := fmt.Sprintf("member %x (%s)", l.ID, cmp.Or(l.Name, "no name"))
		if len(l.PeerURLs) > 0 {
			e.PeerURL = l.PeerURLs[0]
			e.Slot, _ = d.Names.SlotOfURL(e.PeerURL)
		}
		update := fmt.Sprintf("give it such a URL while etcd runs, with its slot in the place of %s: "+
			"`etcdctl member update %x --peer-urls=%s`", settings.SlotMark, l.ID, d.Names.PeerURL)
		other, double := slots[e.Slot]
		switch {
		case len(l.PeerURLs) != 1:
			wrong = append(wrong, fmt.Sprintf("%s has %d peer URLs, not one: %s", who, len(l.PeerURLs), update))
		case e.Slot == "":
			wrong = append(wrong, fmt.Sprintf("the peer URL %s of %s does not fit etcd.peer-url, %s: set that to the "+
				"pattern that the members have, or %s", e.PeerURL, who, d.Names.PeerURL, update))
		case double:
			wrong = append(wrong, fmt.Sprintf("%s has the slot of member %x, by its peer URL %s: remove the one that "+
				"is gone", who, other, e.PeerURL))
		default:
			slots[e.Slot] = l.ID
		}
		elders = append(elders, e)
	}
	return elders, wrong
}

// obstacles says what prevents this etcd from running on a data directory beside members that are not taken over yet.
func (m *Memberships) obstacles(dir string) (all []string) {
	for _, d := range m.Differences {
		if d.Kind.Blocks() {
			all = append(all, fmt.Sprintf("the lists of the members differ: %s; `holdfast takeover check %s` examines "+
				"them, and docs/migrate.md (phantom members) has the ways out", d, dir))
			break // the command shows all of them
		}
	}
	if !standing(byID(m.V3), m.V3Removed, m.Member).listed() {
		all = append(all, fmt.Sprintf("member %x, whose data it is, is not in its own list of members: it was removed, or "+
			"has just been added; give the data up with `holdfast volume set-aside`, or let it join first", m.Member))
	}
	if why, cure := m.TooOld(); why != "" {
		all = append(all, why+": "+cure)
	}
	if why, cure := m.Unreplayable(dir); why != "" {
		all = append(all, why+": "+cure)
	}
	return all
}

// Unreplayable says why the etcd in this program cannot replay the log in dir, and what to do; "" if it can.
func (m *Memberships) Unreplayable(dir string) (why, cure string) {
	if m.OldEntries == 0 || replaysV2 {
		return "", ""
	}
	return fmt.Sprintf("the log has %d entries, the last at index %d, that etcd %s cannot replay", m.OldEntries, m.OldLast,
			version.Version),
		fmt.Sprintf("`holdfast volume repair-wal %s --dry-run` tells whether they can be left behind", dir)
}

// undecided is the cluster version until each founder has reported its own.
const undecided = "3.0.0"

// TooOld says why a cluster is too old to be taken over, and what to do; "" if it is not. A cluster that is too new was
// refused before (errNewer).
func (m *Memberships) TooOld() (why, cure string) {
	cure = "bring every member to etcd 3.6 first, one after the other; docs/migrate-etcd.md says how"
	switch {
	case m.Applied.Term == 0 && m.Applied.Index > 0 && m.ClusterVersion == "":
		return "the data is of etcd 3.4 or older", cure
	case m.ClusterVersion == "" || m.ClusterVersion == undecided:
		return "", ""
	}
	v, known := plan.MinorOf(m.ClusterVersion)
	if !known {
		return fmt.Sprintf("the cluster version %q is not a version", m.ClusterVersion), cure
	}
	if v.Older(plan.Minor{Major: 3, Minor: 6}) {
		return fmt.Sprintf("the cluster's version is %s, and only clusters of etcd 3.6 or newer are taken over",
			m.ClusterVersion), cure
	}
	return "", ""
}
