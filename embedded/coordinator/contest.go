package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"holdfast/embedded/plan"
)

// askToStart begins the question of a node that is about to start a member that may be here as well.
const askToStart = "start "

// aboutToStart is the rest of the question.
type aboutToStart struct {
	Node string `json:"node"`
	plan.Contender
}

// said is the answer. Deaf: the asking node is not live in the gossip here.
type said struct {
	Facts json.RawMessage `json:"facts"`
	Deaf  bool            `json:"deaf,omitempty"`
}

// attemptTime is how long after its questions a member may start. A process that was suspended meanwhile must ask
// again: the others may have lost it since, which takes the gossip longer than attemptTime.
const attemptTime = 2 * goneTimeout

// contest asks the nodes that may start the same member as this one, and answers those that ask: see [plan.Contest].
type contest struct {
	env
	observer  *observer
	announcer *announcer
	peers     peers

	answering sync.Mutex // held while answering, so that no answer drops what a later question has noted

	mu    sync.Mutex
	of    plan.Contest
	asked time.Time // when the attempt began
}

// enter asks the others, and returns why the member here may not start now, nil if it may: from then until end, it does
// not give way. It may not if another node has asked since, or too much time has passed.
func (ct *contest) enter(ctx context.Context) error {
	o, _ := ct.observer.observe() // not under the lock: a disk may be slow
	limited, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	ct.mu.Lock()
	ct.asked = time.Now()
	nodes := ct.of.Whom(&o)
	ct.mu.Unlock()
	question, err := json.Marshal(aboutToStart{ct.cfg.Node, o.Contender()})
	if err != nil {
		return err
	}
	question = append([]byte(askToStart), question...)
	answers := make([]plan.Answer, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { answers[i] = ct.put(limited, node, question) })
	}
	asking.Wait()
	by := make(map[string]plan.Answer, len(nodes))
	for i, node := range nodes {
		by[node] = answers[i]
	}
	ct.mu.Lock()
	defer ct.mu.Unlock()
	switch why := cmp.Or(text(ctx.Err()), ct.of.Obstacle(o, by)); {
	case why != "":
		return delay(why)
	case time.Since(ct.asked) >= attemptTime:
		return delay("this process stood still since the others were asked whether they start it: they are asked again")
	case !ct.of.Begin():
		return delay("another node is about to start a copy of this disk or of its member's data: it is asked first")
	}
	return nil
}

func (ct *contest) end() {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.of.End()
}

// put asks one node. An unreadable answer counts as silence.
func (ct *contest) put(ctx context.Context, node string, question []byte) plan.Answer {
	data, err := ct.peers.mesh.Ask(ctx, node, question)
	if err != nil {
		return plan.Answer{Gone: errors.Is(err, syscall.ECONNREFUSED)}
	}
	var s said
	if json.Unmarshal(data, &s) != nil {
		return plan.Answer{}
	}
	facts, err := ReadFacts(s.Facts)
	if err != nil {
		return plan.Answer{}
	}
	return plan.Answer{Facts: facts, Deaf: s.Deaf}
}

// answer answers a node that is about to start.
func (ct *contest) answer(_ context.Context, question []byte) ([]byte, error) {
	var asks aboutToStart
	if err := json.Unmarshal(question, &asks); err != nil {
		return nil, fmt.Errorf("decode what another node is about to start: %w", err)
	}
	ct.answering.Lock()
	defer ct.answering.Unlock()
	ct.mu.Lock()
	begun := ct.of.Asked(asks.Node, asks.Contender)
	ct.mu.Unlock()
	o, _ := ct.observer.observe() // after the question is noted: otherwise the member could begin, and run, in between
	heard := func(p plan.Peer) bool { return p.Node == asks.Node && p.Live }
	s := said{Deaf: !slices.ContainsFunc(o.Peers, heard)}
	if s.Deaf {
		ct.mu.Lock()
		ct.of.Forget(asks.Node)
		ct.mu.Unlock()
	}
	o.Member.Running = o.Member.Running || begun
	var err error
	if s.Facts, err = ct.announcer.encode(o, false); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
