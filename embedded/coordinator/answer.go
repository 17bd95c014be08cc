package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
)

// Answer answers another node's direct question; ok is false if the coordinator does not know the question.
func (c *Coordinator) Answer(ctx context.Context, question []byte) (answer []byte, ok bool, err error) {
	for ask, answers := range map[string]func(context.Context, []byte) ([]byte, error){
		askToRefresh: c.turn.refresh, askForPermission: c.turn.answer, askToConsent: c.sentinel.answer,
		askToStart: c.loop.actor.contest.answer,
	} {
		if about, ok := bytes.CutPrefix(question, []byte(ask)); ok {
			answer, err = answers(ctx, about)
			return answer, true, err
		}
	}
	switch string(question) {
	case askForStanding:
		answer, err = json.Marshal(c.campaigner.candidacy().Standing)
	case askForFacts:
		o, _ := c.observer.observe()
		o.Member.Defragging = o.Member.Defragging || c.upkeep.asks()
		answer, err = c.announcer.encode(o, false)
	case askWhoAnswers:
		answer, err = c.announcer.encode(c.observer.hear(ctx), false)
	default:
		return nil, false, nil
	}
	return answer, true, err
}
