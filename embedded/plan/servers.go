package plan

import (
	"cmp"
	"slices"
)

// Server is a voter and the node that runs it, for programs that look for the cluster from outside.
type Server struct {
	Slot    string
	Node    string
	Leader  bool
	Live    bool
	Clients []string // client URLs
	Control string   // host:port where its node answers other machines, "" if nowhere
	PeerURL string   // or its pattern, with {slot}
}

// Servers is what the peers say about who serves, for a process that takes no part (R10).
type Servers struct {
	// Known: the peers include a leader's member list. Only then does it mean anything that a slot is missing from
	// Voters.
	Known   bool
	Record  *Record
	Members []MemberInfo // that leader's list, or the previous one while there is none
	Voters  []string     // slots of Members that vote, sorted
	Running []Server     // of the voters: those whose node says that it runs this member, by slot
}

// Serving derives who serves from the gossip. before is the last answer, which stands while no node, or more than one,
// says that it leads the generation, and while two clusters claim one name.
func Serving(peers []Peer, before Servers) Servers {
	obs := Observation{Peers: peers}
	o := look(&obs)
	s := Servers{Record: before.Record, Members: before.Members}
	if record, _ := o.latest(); record != nil {
		unlisted := func(p Peer) bool { return !p.Facts.Running || len(p.Facts.Members) == 0 }
		if leaders := slices.DeleteFunc(o.leaders(record), unlisted); len(leaders) == 1 {
			s.Known, s.Record, s.Members = true, record, leaders[0].Facts.Members
		}
	}
	if s.Record == nil {
		return s
	}
	o.Disk.Ledger.Record = s.Record
	o.Member = Member{Running: true, Members: s.Members} // as a node that has applied this list would see it
	holders := Holders(obs)
	for _, m := range s.Members {
		if m.Learner || m.Slot == "" {
			continue
		}
		s.Voters = append(s.Voters, m.Slot)
		for _, p := range peers {
			if p.Node == holders[m.Slot] && p.Facts != nil && p.Facts.Running && p.Facts.Member == m.ID {
				s.Running = append(s.Running, Server{Slot: m.Slot, Node: p.Node, Leader: p.Live && p.Facts.Leader, Live: p.Live,
					Clients: p.Facts.Clients, Control: p.Facts.Control, PeerURL: cmp.Or(m.PeerURL, p.Facts.PeerURL)})
			}
		}
	}
	slices.Sort(s.Voters)
	slices.SortFunc(s.Running, func(a, b Server) int { return slices.Compare([]byte(a.Slot), []byte(b.Slot)) })
	return s
}
