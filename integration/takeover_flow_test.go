package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// thereAndBack takes all seats over and, after some preparation, releases them, the leader last each time.
func (h *handover) thereAndBack(prepare func()) {
	h.t.Helper()
	for _, i := range h.leaderLast() {
		h.take(i)
	}
	h.healthy()
	h.more(50)
	h.t.Logf("the freeze has ended; the longest gap meanwhile was %s", h.longest())
	prepare()
	h.t.Logf("the way back is prepared; the longest gap meanwhile was %s", h.longest())
	for _, i := range h.leaderLast() {
		h.release(i)
	}
	h.again(0)
	h.verify()
}

// twoAtOnce takes two seats over at the same time, including the leader's.
func (h *handover) twoAtOnce() {
	h.t.Helper()
	order := h.leaderLast()
	for _, i := range order[1:] {
		h.seats[i].end()
		h.seats[i].node.Start()
	}
	for _, i := range order[1:] {
		h.taken(i)
	}
	h.t.Logf("the longest gap was %s", h.longest())
	h.take(order[0])
	h.healthy()
	h.verify()
}

// again takes a seat over after all were given back. The earlier takeover no longer counts.
func (h *handover) again(i int) {
	h.t.Helper()
	h.take(i)
	n := h.seats[i].node
	if out := n.Holdfast("takeover", "status", "--control.socket", n.Socket()); out.Code != 1 || !strings.Contains(out.Out, "frozen:") {
		h.t.Errorf("a second takeover is not frozen: %+v", out)
	}
	h.give(i)
}

// older prepares the data of all members for etcd 3.6, which the other program runs.
func (h *handover) older() {
	h.t.Helper()
	h.agreed("3.7")
	n := h.seats[0].node
	// A busy node may not answer at once.
	integration.Until(h.t, time.Minute, "the data is brought down to etcd 3.6", func() error {
		if out := n.Holdfast("downgrade", "--to", "3.6", "--yes", "--control.socket", n.Socket()); out.Code != 0 {
			return fmt.Errorf("downgrade: %+v", out)
		}
		return nil
	})
}

// fenced starts each program while the other one runs. In the end, holdfast has the seat. holdfast waits for the end
// of the other program. If that uses holdfast's port for gossip, as etcd-manager does, the process ends instead, and
// its supervisor starts it again.
func (h *handover) fenced(i int) {
	h.t.Helper()
	s := h.seats[i]
	s.node.Start()
	integration.Until(h.t, time.Minute, "holdfast waits for the end of the other program", func() error {
		if log := s.node.Log(); !s.node.Running() {
			if !strings.Contains(log, "address already in use") {
				h.t.Fatalf("holdfast has ended: %s", s.node.Report())
			}
			return nil
		}
		self, err := s.node.Self()
		if err == nil && !strings.Contains(self.Why, "etcd still runs on") {
			err = fmt.Errorf("it says %s: %s", self.Action, self.Why)
		}
		return err
	})
	h.more(100)
	if !s.elder.running() {
		h.t.Fatal("the other program has ended")
	}
	s.elder.signal(s.stop)
	s.elder.exit(patience)
	if !s.node.Running() {
		s.node.Start()
	}
	h.taken(i)

	s.elder = s.other()
	h.more(300) // it tries again and again, or ends
	if self, err := s.node.Self(); err != nil || self.Etcd == nil || !self.Etcd.Confirmed {
		h.t.Errorf("beside the other program holdfast is %+v: %v", self, err)
	}
	s.node.Signal(s.stop)
	s.node.Exit(time.Minute)
	if s.elder.running() {
		h.serves(s.url)
	}
	s.cut()
	s.node.Start()
	h.taken(i)
}

// eachTurn runs a story of kills. In make prove it runs once for each distribution of the steps over the seats, so
// that each step happens on each seat.
func eachTurn(t *testing.T, tell func(t *testing.T, turn int)) {
	t.Parallel()
	for _, turn := range tier.Share(t, len(takeoverSteps), []int{0, 1, 2}) {
		t.Run(fmt.Sprintf("turn %d", turn), func(t *testing.T) { tell(t, turn) })
	}
}

// takeoverSteps are the steps at which a process kills itself, while it first adopts the data and while it starts etcd
// on it.
var takeoverSteps = [][]string{{"before-take-up", "before-etcd"}, {"after-take-up", "before-start"},
	{"after-adopt", "after-etcd"}}

// killAtEachStep kills takeovers; in make prove, two on each seat. Each time the other program first continues as if
// nothing had happened.
func (h *handover) killAtEachStep(turn int) {
	h.t.Helper()
	for i, s := range h.seats {
		for _, step := range tier.Share(h.t, 2, takeoverSteps[(i+turn)%len(takeoverSteps)]) {
			s.end()
			s.node.Start(killAt + step)
			killed(h.t, s.node, step)
			s.start()
			h.serves(s.url)
			h.t.Logf("slot %s was killed at %s; the longest gap meanwhile was %s", s.slot, step, h.longest())
		}
		h.take(i)
	}
	h.healthy()
	h.verify()
}

// releaseSteps are the steps at which a process kills itself while it releases a seat; in make prove, two on each.
var releaseSteps = [][]string{{"release-saved", "release-drained"}, {"release-marked", "release-handed"},
	{"release-paused", "release-returned"}}

// killWhileGivingBack kills releases. The other program finds its data each time, even if the release was only half
// done, and holdfast takes the seat again. In the end all seats are given back.
func (h *handover) killWhileGivingBack(turn int, prepare func()) {
	h.t.Helper()
	for _, i := range h.leaderLast() {
		h.take(i)
	}
	h.healthy()
	prepare()
	for i, s := range h.seats {
		for _, step := range tier.Share(h.t, 2, releaseSteps[(i+turn)%len(releaseSteps)]) {
			s.end()
			s.node.Start(killAt + step)
			h.taken(i)
			args := []string{"takeover", "release", "--control.socket", s.node.Socket()}
			if s.etcd != "" {
				args = append(args, "--to-etcd", s.etcd)
			}
			h.t.Logf("the release of slot %s that is killed at %s says %+v", s.slot, step, s.node.Holdfast(args...))
			killed(h.t, s.node, step)
			s.start()
			h.serves(s.url)
			h.t.Logf("the release of slot %s was killed at %s; the longest gap meanwhile was %s", s.slot, step, h.longest())
			s.end()
			s.node.Start()
			h.taken(i)
		}
		h.release(i)
	}
	h.verify()
}
