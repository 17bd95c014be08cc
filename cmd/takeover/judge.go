package takeover

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// members checks the slots, the leader, and whether the other members can be reached.
func (p *Plan) members(s Seen, o plan.Origin) {
	var theirs []string
	for _, m := range o.Members {
		if m.Slot != "" && !m.Learner {
			theirs = append(theirs, m.Slot)
		}
	}
	slices.Sort(theirs)
	ours := slices.Sorted(slices.Values(s.Config.Cluster.Slots))
	if len(theirs) == len(o.Members) && len(theirs) > 0 && !slices.Equal(theirs, ours) && s.Slots == nil {
		p.block(codeSlots, fmt.Sprintf("the members have the slots %s, and cluster.slots is %s: holdfast would add and "+
			"remove members once the takeover is over", strings.Join(theirs, ","), strings.Join(ours, ",")),
			"set cluster.slots to "+strings.Join(theirs, ","))
	}
	if s.Told != nil && s.Told.Leader == o.Member && len(o.Members) > 1 {
		p.warn(codeLeader, "the member of this machine leads, so that its stop costs an election",
			"take this machine over last, or move the leadership first: `etcdctl move-leader`")
	}
	for _, r := range s.Others {
		who := fmt.Sprintf("the member of slot %s (%s)", r.Slot, r.URL)
		switch {
		case r.Unknown != nil:
			p.block(codeName, fmt.Sprintf("the name of %s has no address: %v", who, r.Unknown),
				fmt.Sprintf("add %s=ADDRESS to cluster.adopt-addresses, or a line to /etc/hosts", r.Slot))
		case r.Silent != nil:
			p.block(codeSilent, fmt.Sprintf("%s does not answer: %v", who, r.Silent),
				"start it, or open the way to it from this machine: while it is away, this member must not stop")
		case r.Distrust != nil:
			p.block(codeCertificate, fmt.Sprintf("this node would not trust the certificate of %s: %v", who, r.Distrust),
				"give this node the authorities of that cluster: tls.mode ca with tls.ca-dir, or etcd.peer-trusted-ca-file")
		}
	}
}

// manager checks etcd-manager's mark and spec in the store, on which the etcd-managers of other machines act.
func (p *Plan) manager(s Seen, o plan.Origin) {
	c := s.Store.Control
	if o.Program != plan.EtcdManager || s.Store.Err != nil {
		return
	}
	const cure = `put an object control/etcd-cluster-created with the text {"timestamp":"1"} into the store`
	switch {
	case !c.Created && c.Spec != nil:
		p.block(codeMark, "the store has etcd-manager's spec and not its mark control/etcd-cluster-created: an etcd-manager "+
			"that leads founds an empty cluster over this one", cure)
	case !c.Created:
		p.warn(codeMark, "the store has neither etcd-manager's mark nor its spec: check that it is the store of this cluster",
			"with the provider external etcd-manager needs none; `holdfast takeover release` writes both")
	}
	voters := len(slices.DeleteFunc(slices.Clone(o.Members), func(m plan.Elder) bool { return m.Learner }))
	if c.Spec != nil && voters > 0 && c.Spec.Members != voters {
		p.block(codeSpec, fmt.Sprintf("etcd-manager's spec in the store says %d members, and there are %d: it adds or "+
			"removes some", c.Spec.Members, voters),
			"correct it with `etcd-manager-ctl configure-cluster`, or let etcd-manager finish")
	}
}

// ports checks which ports of the configuration are in use. The ports of the running etcd become free when it stops. So
// does the port for gossip, if etcd-manager uses it.
func (p *Plan) ports(s Seen, v *Volume) {
	for _, e := range config.Endpoints(s.Config) {
		at := net.JoinHostPort(e.Host, e.Port)
		taken, etcds := slices.Contains(s.Taken, e), strings.HasPrefix(e.Key, "etcd.")
		switch {
		case taken && v.Running != "" && (etcds || e.Key == "gossip.listen" && p.Program == plan.EtcdManager):
		case taken:
			p.block(codePort, fmt.Sprintf("another program listens at %s, which is %s", at, e.Key),
				"stop that program, or set "+e.Key+" to a port that is free")
		case v.Running != "" && strings.HasPrefix(e.Key, "etcd.listen-client-urls"):
			p.warn(codeClients, fmt.Sprintf("nobody listens at %s now, where clients will find etcd (%s)", at, e.Key),
				"check that it is the address that the clients use")
		}
	}
}

// recent returns how old the newest backup may be: two intervals, at least an hour, and a day without a schedule.
func recent(every time.Duration) time.Duration {
	if every == 0 {
		return 24 * time.Hour
	}
	return max(time.Hour, 2*every)
}

// store checks that the store answers and has a recent backup.
func (p *Plan) store(s Seen) {
	if s.Store.Err != nil {
		p.block(codeStore, fmt.Sprintf("the backup store does not answer: %v", s.Store.Err),
			"check that snapshot.store is right and can be reached from here; a node waits for its answer")
		return
	}
	save := "`holdfast snapshot save --config FILE --endpoints " + cmp.Or(p.Endpoint, "URL")
	if p.Endpoint == "" || strings.HasPrefix(p.Endpoint, "https:") {
		save += " --cacert CA --cert CERT --key KEY"
	}
	save += "` saves and verifies one now; FILE is this configuration (`holdfast etcd-manager FLAGS --print-config` " +
		"prints it for etcd-manager's flags)"
	b := s.Store.Newest
	switch most := recent(s.Config.Snapshot.Every); {
	case b == nil:
		p.block(codeBackup, "no verified backup of cluster "+s.Config.Cluster.Name+" is in "+s.Config.Snapshot.Store, save)
	case s.Now.Sub(b.Created) > most:
		p.block(codeBackup, fmt.Sprintf("the newest verified backup, %s, is from %s, which is older than %s", b.Name,
			health.Age(s.Now, b.Created), config.FormatDuration(most)), save)
	}
}

// steps fills in the steps of the takeover in their order.
func (p *Plan) steps(s Seen, o plan.Origin) {
	decision := p.Steps
	program := string(o.Program)
	add := func(format string, args ...any) { p.Steps = append(p.Steps, fmt.Sprintf(format, args...)) }
	p.Steps = []string{}
	if p.Running != "" {
		add("you stop %s on this machine, and make sure that nothing starts it again; holdfast waits while etcd has %s "+
			"locked",
			program, p.Running)
	}
	add("holdfast claims the volume %s as slot %s and writes its identity.json there", p.Volume, p.Slot)
	if s.Store.Record == nil {
		add("it puts the cluster's record, with token, IDs and members, into the backup store, so that nobody founds another")
	} else {
		add("it finds the cluster's record in the backup store: %s", s.Store.Record.Token())
	}
	p.Steps = append(p.Steps, decision...)
	switch o.Program {
	case plan.EtcdManager:
		add("%s becomes etcd, and a link takes its place in the same instant: etcd-manager finds its data there as before",
			cmp.Or(o.Path, "the directory of etcd-manager's data"))
	case plan.PlainEtcd:
		add("the directory member becomes etcd/member, and a link takes its place in the same instant: etcd finds its " +
			"data there as before")
	}
	add("it starts etcd %s as the same member, %s of cluster %s, with the same peer URL and the same data",
		etcdversion.Version, dash(p.Member), dash(p.Cluster))
	if rest := p.rest(); len(rest) > 0 {
		add("you do the same on the machine of each other member, one at a time, and wait until it serves: slot %s",
			strings.Join(rest, ", then "))
	}
	add("when every member has been seen running under holdfast, the freeze ends")
	if plan.Older(p.Version, etcdversion.Version) {
		add("the cluster version then rises from %s to %s by itself; an older etcd needs `holdfast downgrade` before it can "+
			"come back", p.Version, etcdversion.Cluster(etcdversion.Version))
	}
	add("you can give a member back at any time: `holdfast takeover release`")
}

// rest returns the slots of the other members, the leader's last.
func (p *Plan) rest() (slots []string) {
	last := ""
	for _, m := range p.Members {
		switch {
		case m.Own:
		case m.Leads:
			last = m.Slot
		default:
			slots = append(slots, m.Slot)
		}
	}
	if last != "" {
		slots = append(slots, last)
	}
	return slots
}

func dash(text string) string {
	if text == "" {
		return "not known yet"
	}
	return text
}

// newest returns the newest backup that is good or has a good proof, or nil if there is none.
func newest(all []snapshot.Backup, now time.Time) *snapshot.Backup {
	proven := func(p snapshot.Proof) bool { return p.Unknown == "" && p.Error == "" }
	all = slices.DeleteFunc(all, func(b snapshot.Backup) bool {
		return !b.Good() && !slices.ContainsFunc(b.Proofs, proven)
	})
	if b, ok := snapshot.Newest(all, now); ok {
		return &b
	}
	return nil
}
