package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
)

// Answer answers another node's direct question; ok is false when it is not for us.
func (c *Coordinator) Answer(ctx context.Context, question []byte) (answer []byte, ok bool, err error) {
	if value, ok := bytes.CutPrefix(question, []byte(askToRefresh)); ok {
		ctx, cancel := context.WithTimeout(ctx, lockTimeout)
		defer cancel()
		return nil, true, c.world.Etcd.RefreshLock(ctx, value)
	}
	if about, ok := bytes.CutPrefix(question, []byte(askToStart)); ok {
		answer, err = c.loop.actor.contest.answer(about)
		return answer, true, err
	}
	if ok, err := c.sentinel.answer(ctx, question); ok {
		return nil, true, err
	}
	if answer, ok := c.turn.answer(ctx, question); ok {
		return answer, true, nil
	}
	if string(question) == askForStanding {
		answer, err = json.Marshal(c.campaigner.standing())
		return answer, true, err
	}
	if string(question) != askForFacts {
		return nil, false, nil
	}
	o, _ := c.observer.observe()
	o.Member.Defragging = o.Member.Defragging || c.upkeep.asks()
	answer, err = c.announcer.told(o, false)
	return answer, true, err
}
