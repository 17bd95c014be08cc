package plan

import (
	"slices"
	"time"
)

// Early campaigns (R23): a member starts an election before raft's timer expires, on evidence that there is no leader.
// Raft alone decides who leads. A wrong campaign costs one needless election, so several pieces of evidence must agree.

// Reason is the evidence on which a member campaigns early.
type Reason string

// The reasons to campaign early.
const (
	// LeaderRefused: every stream to the leader has ended, and its peer port refuses connections: the process is gone.
	LeaderRefused Reason = "leader-refused"
	// LeaderGone: a majority of the voters misses the leader's heartbeats, and the leader's node does not answer, or the
	// gossip has lost it: the machine or its network is gone, or the process is stopped.
	LeaderGone Reason = "leader-gone"
	// LeaderStalled: a majority of the voters misses the leader's heartbeats, and the leader itself says that its disk
	// has not written what others have.
	LeaderStalled Reason = "leader-stalled"
	// FirstFounder: the founder of the first slot elects itself as soon as a majority is connected.
	FirstFounder Reason = "founding"
	// NoLeader: the member has seen no leader since it started, and a majority, asked directly, knows none.
	NoLeader Reason = "no-leader"
)

// Reasons are all reasons to campaign early.
func Reasons() []Reason {
	return []Reason{LeaderRefused, LeaderGone, LeaderStalled, FirstFounder, NoLeader}
}

const (
	// After silentBeats without a heartbeat, heartbeats are missing, unless leaders have paused for long ([Silences]).
	// After lateBeats, the leader's node is asked. A leader whose disk has hung for stuckBeats sends none.
	silentBeats = 5
	lateBeats   = 2
	stuckBeats  = 3
	// For calmBeats after an election, some ten election timeouts, no leader is deposed for what may be a pause. If all
	// disks are slow, each needless election makes the next leader pause.
	calmBeats = 84
	// muteTries is the number of questions in a row that a node must leave unanswered to count as gone.
	muteTries = 3
	// settle is how long evidence must last before the first voter campaigns. Each next voter waits rankStep longer:
	// enough for an election, which costs each voter one fsync.
	settle   = 10 * time.Millisecond
	rankStep = 120 * time.Millisecond
	// backOff is the pause after a campaign that brought no leader; it doubles up to maxBackOff.
	backOff    = 100 * time.Millisecond
	maxBackOff = 1600 * time.Millisecond
)

// Glance is a cheap look at etcd: it costs only a few locks.
type Glance struct {
	Lead, Term uint64
	Leads      bool // this member leads
	Doubtful   bool // no leader, no stream to it, or late heartbeats
}

// Standing is the state of a running member's raft at one moment. Voters ask each other for it directly.
type Standing struct {
	Running bool     `json:"running,omitempty"`
	Voter   bool     `json:"voter,omitempty"`
	Able    bool     `json:"able,omitempty"` // may campaign early
	ID      uint64   `json:"id,omitempty"`
	Term    uint64   `json:"term,omitempty"`
	Lead    uint64   `json:"lead,omitempty"`   // the leader that raft shows, 0 for none
	End     LogEnd   `json:"end"`              // the end of its log on disk
	Voters  []uint64 `json:"voters,omitempty"` // as applied, itself among them
	Near    []uint64 `json:"near,omitempty"`   // members that raft is connected to
	// Silence is how long nothing has come from the leader. On a leader it is how long its disk has not written what
	// others have. It grows only while this process gets the CPU, and is measured in Beats.
	Silence time.Duration `json:"silence,omitempty"`
	Beat    time.Duration `json:"beat,omitempty"`
	// Elected is how long ago one leader replaced another, 0 if that has not happened since the member started.
	Elected time.Duration `json:"elected,omitempty"`
	// Longest is the longest silence of a leader that came back ([Silences]).
	Longest time.Duration `json:"longest,omitempty"`
	// Settled: all committed entries are applied. Raft refuses to campaign before a committed member change is applied.
	Settled bool `json:"-"`
}

// hears reports whether the member leads, or its leader's messages reach it.
func (s Standing) hears() bool {
	return s.Running && (s.Lead == s.ID || slices.Contains(s.Near, s.Lead) && !s.silent())
}

// Beat is the unit in which silence is measured: the heartbeat interval, or more if the election timeout is long. A
// long timeout means that a leader on slow disks or links may pause for longer.
func Beat(heartbeat, election time.Duration) time.Duration { return max(heartbeat, election*12/100) }

// silent reports whether the leader's heartbeats are missing.
func (s Standing) silent() bool { return s.Beat > 0 && s.Silence >= s.patience() }

// Late reports whether heartbeats are beginning to be missing.
func (s Standing) Late() bool { return s.missing(lateBeats) }

func (s Standing) missing(beats time.Duration) bool {
	return s.Beat > 0 && s.Silence >= beats*s.Beat
}

// stuck reports whether a leader says that its disk has not written what others have.
func (s *Standing) stuck() bool {
	return s != nil && s.Running && s.Lead == s.ID && s.missing(stuckBeats)
}

// Rival is another voter; the suspect is not among them.
type Rival struct {
	ID   uint64
	Live bool      // the gossip sees its node
	Said *Standing // its answer just now, nil if there was none
}

// Candidacy is everything a member knows when it decides whether to campaign early.
type Candidacy struct {
	Standing
	Departing bool // it goes down on purpose, or is busy
	Ending    bool // it has left its generation, is entering the next one, or an end of it is proposed
	Rivals    []Rival

	// Suspect is the last leader that raft showed, 0 if none since the member started. Refused: a new connection to its
	// peer port was refused just now. Mute counts the questions in a row that its node has not answered; Answer is its
	// last answer.
	Suspect uint64
	Refused bool
	Mute    int
	Answer  *Standing
	// First: this process has committed the founding, and holds the first slot.
	First bool

	// Since is how long the evidence has lasted in this term. Campaigned is the term of the member's last campaign, and
	// Ago how long ago that was. Fruitless counts the campaigns in a row that brought no leader.
	Since      time.Duration
	Campaigned uint64
	Ago        time.Duration
	Fruitless  int
}

// Candidate fills in what an observation says about a candidacy; raft adds the rest.
func (obs Observation) Candidate() Candidacy {
	o := look(&obs)
	l, m := o.Disk.Ledger, o.Member
	c := Candidacy{
		Departing: o.Stopping || o.Drained || m.Defragging || m.Lock != nil && m.Lock.Slot == o.Claim.Slot,
		Ending: l.Record == nil || l.Left != nil || o.changing() || o.outlived() || l.Prepared != nil ||
			proposals(o).open() != nil,
	}
	if r := l.Record; r != nil {
		c.First = o.Disk.Fresh && l.Role == RoleFounder && r.First() == o.Claim.Slot
	}
	return c
}

// First is the slot whose founder campaigns first, "" for a generation that was not founded.
func (r Record) First() string {
	if r.Cause != Founding || len(r.Charter.Seats) == 0 {
		return ""
	}
	return slices.Min(r.Charter.Slots())
}

// Ballot is the reason to campaign now, "" if the member does not. It is an optimisation (R23): without it, raft's own
// timers elect a leader.
func (c Candidacy) Ballot() Reason {
	reason := c.Evidence()
	before, behind := c.before()
	switch {
	case !c.Running || !c.Voter:
	case c.Lead == c.ID:
	case c.Departing:
	case c.Ending:
	case c.heard():
	case c.unsure(reason):
	case c.Campaigned != 0 && c.Term <= c.Campaigned: // once in a term
	case c.Fruitless > 0 && c.Ago < min(backOff<<min(c.Fruitless-1, 10), maxBackOff), c.unsettling(reason):
	case !c.majority():
	case c.Suspect == 0 && !c.Settled: // it has just started, and has not applied all committed entries
	case behind:
	case reason != FirstFounder && c.stood(reason) < settle+time.Duration(before)*rankStep: // another goes first
	default:
		return reason
	}
	return ""
}

// Evidence is the reason to believe that there is no leader, "" if there is none.
func (c Candidacy) Evidence() Reason {
	switch {
	case c.Lead != 0 && c.Lead != c.Suspect: // another one leads by now
		return ""
	case c.Suspect != 0 && c.Refused && !slices.Contains(c.Near, c.Suspect):
		return LeaderRefused
	case c.Suspect != 0 && c.silent() && c.Unanswered():
		return LeaderGone
	case c.Suspect != 0 && c.silent() && c.Answer.stuck():
		return LeaderStalled
	case c.Founds():
		return FirstFounder
	case c.Suspect == 0 && c.unled():
		return NoLeader
	}
	return ""
}

// Unanswered reports whether the suspect left enough questions unanswered. It copies nothing, because other goroutines
// may write c meanwhile.
func (c *Candidacy) Unanswered() bool { return c.Mute >= muteTries }

// stood is how long the evidence has lasted. All voters miss the last heartbeat at the same time. The one with the
// longest patience is waited for, or voters with different memories would campaign at once.
func (c Candidacy) stood(reason Reason) time.Duration {
	if reason == LeaderGone || reason == LeaderStalled {
		patience := c.patience()
		for _, r := range c.Rivals {
			if r.Said != nil {
				patience = max(patience, r.Said.patience())
			}
		}
		return c.Silence - patience
	}
	return c.Since
}

// Founds reports whether nobody can have led yet: etcd founds in term 1, and the first election is that of term 2. A
// founder that was restarted may have a leader that it has not heard.
func (c Candidacy) Founds() bool { return c.First && c.Suspect == 0 && c.Term <= 1 }

// agreed reports whether a majority of the voters, including this one, says the same.
func (c Candidacy) agreed(says func(*Standing) bool) bool {
	with := 1
	for _, r := range c.Rivals {
		if r.Said != nil && r.Said.Running && r.Said.Voter && says(r.Said) {
			with++
		}
	}
	return with > len(c.Voters)/2
}

// unled reports whether a majority of the voters knows no leader.
func (c Candidacy) unled() bool { return c.agreed(func(s *Standing) bool { return s.Lead == 0 }) }

// heard reports whether another voter hears a leader.
func (c Candidacy) heard() bool {
	return slices.ContainsFunc(c.Rivals, func(r Rival) bool { return r.Said != nil && r.Said.hears() })
}

// unsure reports whether a voter that may hear the leader has not answered: one that raft is connected to, or whose
// node is live. Its silence is no consent. A firewall or a stale address refuses connections too, and a leader whose
// heartbeats are missing here may be cut off only from this node.
func (c Candidacy) unsure(reason Reason) bool {
	near := func(r Rival) bool { return r.Said == nil && slices.Contains(c.Near, r.ID) }
	live := func(r Rival) bool { return r.Said == nil && r.Live }
	switch reason {
	case LeaderRefused:
		return slices.ContainsFunc(c.Rivals, near)
	case LeaderGone, LeaderStalled:
		return !c.missed()
	case NoLeader:
		return slices.ContainsFunc(c.Rivals, near) || slices.ContainsFunc(c.Rivals, live)
	}
	return false
}

// missed reports whether a majority of the voters misses the suspect's heartbeats.
func (c Candidacy) missed() bool {
	return c.agreed(func(s *Standing) bool { return s.Lead == c.Suspect && s.silent() })
}

// majority reports whether a majority of the voters is connected, without the suspect.
func (c Candidacy) majority() bool {
	with := 0
	for _, id := range c.Voters {
		if id == c.ID || id != c.Suspect && slices.Contains(c.Near, id) {
			with++
		}
	}
	return with > len(c.Voters)/2
}

// unsettling reports whether a campaign against a leader that may only be pausing would follow an election too soon.
// The election counts if this member or another voter has seen it.
func (c Candidacy) unsettling(reason Reason) bool {
	lately := func(s *Standing) bool { return s != nil && s.Elected > 0 && s.Elected < calmBeats*c.Beat }
	return (reason == LeaderGone || reason == LeaderStalled) &&
		(lately(&c.Standing) || slices.ContainsFunc(c.Rivals, func(r Rival) bool { return lately(r.Said) }))
}

// before returns how many live voters go first, and whether one of them has a longer log. For a voter that did not
// answer, only its ID counts.
func (c Candidacy) before() (rank int, behind bool) {
	for _, r := range c.Rivals {
		if !r.Live {
			continue
		}
		end, able := c.End, true
		if r.Said != nil {
			end, able = r.Said.End, r.Said.Able && r.Said.Running && r.Said.Voter
		}
		switch {
		case end.after(c.End):
			behind = true
		case end == c.End && able && r.ID < c.ID:
			rank++
		}
	}
	return rank, behind
}
