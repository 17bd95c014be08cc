package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

const (
	// glanceEvery is how often the campaigner checks the leader's streams and heartbeats, unless it may rest. A leader has
	// nobody to wait for, and checks every leadEvery.
	glanceEvery = 20 * time.Millisecond
	leadEvery   = 300 * time.Millisecond
	// lookEvery is the shortest time between two looks while nothing is suspicious.
	lookEvery = 200 * time.Millisecond
	// doubtEvery is the shortest time between two looks while something is: only many wakeups are costly.
	doubtEvery = 5 * time.Millisecond
	// restEvery is the longest time between two looks while a doubt lasts, for example in a minority that is cut off.
	restEvery = 500 * time.Millisecond
	// standingWait is how long another voter, or the leader, may take to answer.
	standingWait = 100 * time.Millisecond
	// verdictWait is how long a deposed leader may take to answer. Nothing waits for it, and it may have just come back.
	verdictWait = time.Second
	// againAfter is the pause before a silent leader is asked again: a question to a dead machine occupies one of the
	// mesh's few senders.
	againAfter = time.Second
	// campaignWait bounds the call to raft, which waits for nothing while raft runs.
	campaignWait = time.Second
)

// askForStanding asks for a member's [plan.Standing].
const askForStanding = "standing"

// campaigner makes this member start an election early, if the plan says so (R23). Only run uses its state.
type campaigner struct {
	env
	history  *history
	holding  *holding
	bugs     *bugs
	status   *status
	observer *observer
}

// suspicion is what the campaigner remembers between looks, during one run of etcd.
type suspicion struct {
	suspect    uint64    // the last leader that raft showed
	mute       int       // questions in a row that its node has not answered
	asked      time.Time // when it was last asked
	reason     plan.Reason
	term       uint64
	since      time.Time // when reason and term were first seen together
	campaigned uint64    // the term of this member's last campaign
	at         time.Time // when it was
	fruitless  int       // campaigns in a row that brought no leader
	silences   plan.Silences
}

// schedule says when to look.
type schedule struct {
	seen  plan.Glance // at the begin of the last look
	last  time.Time   // when the last look ended
	began time.Time   // the doubt; zero while there is none
}

// due reports whether to look now. While nothing is suspicious, a follower looks once after each change, to remember
// the leader. A leader looks regularly, because its disk may hang.
func (v *schedule) due(g plan.Glance) bool {
	ago := time.Since(v.last)
	if lasts(&v.began, g.Doubtful, time.Now()); !g.Doubtful {
		return (g != v.seen || g.Leads) && ago >= lookEvery
	}
	return ago >= min(time.Since(v.began)/16, restEvery)
}

// pauseAfter is the pause after a glance that may be followed by a rest.
func pauseAfter(g plan.Glance, rest time.Duration) time.Duration {
	switch {
	case g.Doubtful:
		return doubtEvery
	case g.Leads:
		return leadEvery
	}
	return max(glanceEvery, rest)
}

// run looks until ctx ends. It keeps glancing while a look waits for answers, because silence counts only while it
// glances.
func (c *campaigner) run(ctx context.Context) {
	var s suspicion
	var v schedule
	looked := make(chan struct{}, 1)
	looking := false
	pause := glanceEvery
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if looking {
				<-looked
			}
			return
		case <-looked:
			looking, v.last = false, time.Now()
			continue
		case <-ticker.C:
		}
		g, rest := c.world.Etcd.Glance()
		if now := pauseAfter(g, rest); now != pause {
			pause = now
			ticker.Reset(pause)
		}
		if due := v.due(g); !looking && (due || s.silences.Due(time.Now()) != 0) {
			looking, v.seen = true, g
			go func() { c.look(ctx, &s); looked <- struct{}{} }()
		}
	}
}

// look observes, asks the plan, and campaigns if the plan says so.
func (c *campaigner) look(ctx context.Context, s *suspicion) {
	now := c.candidacy()
	if !now.Running {
		*s = suspicion{}
		c.tell(s)
		return
	}
	c.judge(ctx, &now, s)
	if now.Lead != 0 {
		if now.Lead != s.suspect || now.Term > s.campaigned {
			s.fruitless = 0
		}
		if now.Lead != s.suspect || !now.Late() {
			s.mute = 0
		}
		s.suspect = now.Lead
	}
	now.Suspect, now.Mute, now.Campaigned, now.Fruitless = s.suspect, s.mute, s.campaigned, s.fruitless
	if now.Lead == now.ID || now.Departing || now.Ending {
		return
	}
	c.inquire(ctx, &now, s)
	if fresh := c.world.Etcd.Standing(); fresh.Term == now.Term && fresh.Lead == now.Lead {
		now.Silence = fresh.Silence
	} else {
		return // something has changed meanwhile
	}
	if reason := now.Evidence(); reason != s.reason || now.Term != s.term {
		s.reason, s.term, s.since = reason, now.Term, time.Now()
	}
	now.Since, now.Ago = time.Since(s.since), time.Since(s.at)
	reason := now.Ballot()
	if reason == "" {
		return
	}
	s.campaigned, s.at, s.fruitless = now.Term, time.Now(), s.fruitless+1
	c.campaign(ctx, now, reason)
}

// judge notes how long leaders pause. It asks a leader that was replaced while it was silent whether it is back.
func (c *campaigner) judge(ctx context.Context, now *plan.Candidacy, s *suspicion) {
	s.silences.Watch(now.Standing, time.Now())
	if id := s.silences.Due(time.Now()); id != 0 {
		live, _ := c.nodes()
		s.silences.Judge(c.ask(ctx, live[id], id, verdictWait), time.Now())
	}
	now.Longest = s.silences.Longest
	c.tell(s)
}

// tell tells others how long leaders pause.
func (c *campaigner) tell(s *suspicion) {
	c.status.set(func(now *Situation) { now.LeaderSilence = s.silences.Longest })
}

// candidacy is what is known here without asking anyone. What the disk has left or entered is in the ledger already.
func (c *campaigner) candidacy() plan.Candidacy {
	last, held := c.status.last(), c.holding.now()
	o := last.Observation
	o.Claim.Slot, o.Disk.Ledger = held.id.Slot, held.ledger.Ledger
	o.Disk.Fresh = o.Disk.Ledger.Record != nil && held.fresh == o.Disk.Ledger.Record.ID
	o.Drained, o.Stopping = held.drained.on, c.observer.ends()
	now := plan.Candidacy{Ending: true} // unless the plan can tell
	c.bugs.guard(theCampaign, func() { now = o.Candidate() })
	now.Standing = c.world.Etcd.Standing()
	now.Longest = last.LeaderSilence
	now.Able = c.cfg.EarlyCampaign && !now.Departing && !now.Ending && held.usable()
	return now
}

// inquire adds to a candidacy what the mesh says about the other voters. If the leader may be gone, it also tries the
// leader's peer port, and asks the other voters and the leader itself. It takes as long as the slowest answer, which is
// bounded.
func (c *campaigner) inquire(ctx context.Context, now *plan.Candidacy, s *suspicion) {
	nodes, lost := c.nodes()
	for _, id := range now.Voters {
		if _, live := nodes[id]; id != now.ID && id != now.Suspect {
			now.Rivals = append(now.Rivals, plan.Rival{ID: id, Live: live})
		}
	}
	apart := now.Suspect != 0 && now.Suspect != now.ID && !slices.Contains(now.Near, now.Suspect)
	if !apart && !now.Late() && (now.Suspect != 0 || now.Founds()) {
		return
	}
	var asking sync.WaitGroup
	if apart {
		asking.Go(func() { now.Refused = c.world.Etcd.Refused(ctx, now.Suspect) })
	}
	for i := range now.Rivals {
		if r := &now.Rivals[i]; r.Live {
			asking.Go(func() { r.Said = c.ask(ctx, nodes[r.ID], r.ID, standingWait) })
		}
	}
	if now.Late() {
		c.askSuspect(ctx, now, s, nodes[now.Suspect], lost[now.Suspect])
	}
	asking.Wait()
}

// nodes returns the live node of each member, and the members whose node the mesh has lost.
func (c *campaigner) nodes() (live map[uint64]string, lost map[uint64]bool) {
	live, lost = map[uint64]string{}, map[uint64]bool{}
	for _, p := range c.status.last().Observation.Peers {
		switch f := p.Facts; {
		case f == nil || f.Member == 0:
		case p.Live:
			live[f.Member] = p.Node
		default:
			lost[f.Member] = true
		}
	}
	return live, lost
}

// askSuspect asks a leader whose heartbeats are late for its standing. A leader that the mesh has lost was asked
// before, and one that another program runs cannot be asked.
func (c *campaigner) askSuspect(ctx context.Context, now *plan.Candidacy, s *suspicion, node string, lost bool) {
	switch {
	case node != "" && (!now.Unanswered() || time.Since(s.asked) >= againAfter):
		s.asked = time.Now()
		now.Answer = c.ask(ctx, node, now.Suspect, standingWait)
		// A quick error is no silence, and a much later one is a delay in this process.
		if took := time.Since(s.asked); took >= standingWait && took < 3*standingWait/2 {
			s.mute++
		}
	case node == "" && lost:
		s.mute++
	}
	if now.Answer != nil {
		s.mute = 0
	}
	now.Mute = s.mute
}

// ask returns the standing of the voter on a node, nil if there is no such node or it does not answer in time.
func (c *campaigner) ask(ctx context.Context, node string, id uint64, wait time.Duration) *plan.Standing {
	if node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	data, err := c.world.Mesh.Ask(ctx, node, []byte(askForStanding))
	said := new(plan.Standing)
	if err != nil || json.Unmarshal(data, said) != nil || said.ID != id {
		return nil
	}
	return said
}

// campaign makes the member start the election, and reports it.
func (c *campaigner) campaign(ctx context.Context, now plan.Candidacy, reason plan.Reason) {
	ctx, cancel := context.WithTimeout(ctx, campaignWait)
	defer cancel()
	err := c.world.Etcd.Campaign(ctx, now.Standing)
	if err == nil {
		c.world.Campaigned(reason)
	}
	c.history.remember(Entry{Kind: EntryCampaign, Reason: string(reason), Outcome: Done, Error: text(err),
		Why: fmt.Sprintf("started an election in term %d (%s)", now.Term, reason)})
	c.lg.Info("started an election early", zap.String("reason", string(reason)), zap.Uint64("term", now.Term),
		zap.String("leader", fmt.Sprintf("%x", now.Suspect)), zap.Error(err))
}
