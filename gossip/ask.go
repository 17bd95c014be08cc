package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	askTimeout  = 10 * time.Second
	callWorkers = 8
	callQueue   = 64
)

var (
	errNotRunning = errors.New("gossip is not running")
	errBusy       = errors.New("too many questions and answers are under way")
)

// asking puts questions to other nodes, and answers theirs. The workers of Run do what may block, so that neither
// memberlist nor a caller whose ctx has ended waits for a slow peer.
type asking struct {
	parts
	self   Meta
	answer func(ctx context.Context, question []byte) ([]byte, error)
	jobs   chan func(ctx context.Context)
	ended  chan struct{} // closed when Run ends
	// waiting has a chan answer, of capacity 1, for each question under way, by its ID.
	waiting sync.Map
}

func newAsking(p parts, self Meta, reply func(context.Context, []byte) ([]byte, error)) *asking {
	return &asking{parts: p, self: self, answer: reply, jobs: make(chan func(context.Context), callQueue),
		ended: make(chan struct{})}
}

func (a *asking) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-a.jobs:
			job(ctx)
		}
	}
}

func (a *asking) queue(job func(ctx context.Context)) error {
	select {
	case a.jobs <- job:
		return nil
	default:
		return errBusy
	}
}

// answered hands an answer to anyone who waits; a late, repeated or invented one finds nobody.
func (a *asking) answered(reply answer) {
	if waiter, ok := a.waiting.LoadAndDelete(reply.ID); ok {
		waiter.(chan answer) <- reply
	}
}

// Ask sends a question of at most maxMessage bytes straight to the process that counts for a live node, or to one of
// Twins, and returns its answer; asking this node itself calls its own answer func. It ends with ctx and in any case
// after 10 s. An error of the other side's answer func arrives as its text. An error never means that the question was
// not seen.
func (a *asking) Ask(ctx context.Context, node string, question []byte) (body []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask %s: %w", node, err)
		}
	}()
	if len(question) > maxMessage {
		return nil, fmt.Errorf("question has %d bytes, at most %d are allowed", len(question), maxMessage)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if node == a.self.Node {
		return a.answer(ctx, question)
	}
	list := a.here.list.Load()
	if list == nil {
		return nil, errNotRunning
	}
	meta, at, err := a.known.locate(node)
	if err != nil {
		return nil, err
	}
	id, reply, unsent := rand.Uint64(), make(chan answer, 1), make(chan error, 1)
	msg := encode(ask{ID: id, Node: a.self.Node, Boot: a.self.Boot, Question: question})
	a.waiting.Store(id, reply)
	defer a.waiting.Delete(id)
	if err := a.queue(func(context.Context) {
		if ctx.Err() != nil {
			return // nobody waits for the answer any more
		}
		if err := list.SendReliable(destination(meta, at), msg); err != nil {
			unsent <- err
		}
	}); err != nil {
		return nil, err
	}
	select {
	case a := <-reply:
		if a.Failed {
			return nil, errors.New(string(a.Body))
		}
		return a.Body, nil
	case err := <-unsent:
		return nil, err
	case <-a.ended:
		return nil, errNotRunning
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// asked answers a question. The asker may already count as lost here; it still gets its answer.
func (a *asking) asked(q ask) {
	err := a.queue(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		body, err := a.answer(ctx, q.Question)
		if err == nil && len(body) > maxMessage {
			err = fmt.Errorf("answer has %d bytes, at most %d are allowed", len(body), maxMessage)
		}
		reply := answer{ID: q.ID, Body: body}
		if err != nil {
			reply = answer{ID: q.ID, Failed: true, Body: []byte(err.Error())}
		}
		if err := a.reply(q, reply); err != nil {
			a.lg.Debug("answer not sent", zap.String("node", q.Node), zap.Error(err))
		}
	})
	if err != nil {
		a.reject(reasonFull, "ask", fmt.Sprintf("%s: a question of it was not answered: %v", q.Node, err))
	}
}

// reply sends an answer to exactly the process that asked, over its own stream, within streamTimeout for each step.
func (a *asking) reply(q ask, reply answer) error {
	asker := Meta{Node: q.Node, Boot: q.Boot}
	at, known := a.known.last(asker)
	if !known {
		return errors.New("the asking process is not known here")
	}
	return a.here.list.Load().SendReliable(destination(asker, at), encode(reply))
}
