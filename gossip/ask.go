package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

const askTimeout = 10 * time.Second

var (
	errNotRunning = errors.New("gossip is not running")
	errBusy       = errors.New("too many questions are under way")
)

// Ask sends a question of at most maxMessage bytes straight to the process that counts for a live node, or to one of
// Twins, and returns its answer; asking this node itself calls its own answer func. It ends with ctx and in any case
// after 10 s. An error of the other side's answer func arrives as its text. An error never means that the question was
// not seen.
func (m *Mesh) Ask(ctx context.Context, node string, question []byte) (body []byte, err error) {
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
	if node == m.self.Node {
		return m.answer(ctx, question)
	}
	select {
	case <-m.started:
	default:
		return nil, errNotRunning
	}
	meta, at, err := m.known.locate(node)
	if err != nil {
		return nil, err
	}
	return m.streams.ask(ctx, memberlist.Address{Addr: at.String(), Name: meta.process()}, question)
}

// question puts a question to a process, over a connection of its own.
func (t *transport) question(ctx context.Context, to memberlist.Address, question []byte) ([]byte, error) {
	conn, err := t.dial(ctx, to, forQuestion, streamTimeout)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	defer conn.cut()
	defer context.AfterFunc(ctx, conn.cut)()
	_ = write(conn, framed(question), askTimeout) // if it fails so does what follows
	body, err := readAnswer(conn, 1+maxMessage)
	switch {
	case err != nil:
		return nil, cmp.Or(ctx.Err(), t.papers.whyNot(err))
	case body == nil:
		return nil, errHeader
	}
	return body, nil
}

// asked answers a question, unless too many are under way. Nobody waits for an answer for longer than askTimeout.
func (m *Mesh) asked(ctx context.Context, conn *peerConn, enter func() error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := enter(); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(askTimeout)) // if it cannot be set the connection has ended
	question, err := readFrame(conn, maxMessage)
	if err != nil {
		return m.papers.whyNot(err)
	}
	body, err := m.answer(ctx, question)
	if err == nil && len(body) > maxMessage {
		err = fmt.Errorf("answer has %d bytes, at most %d are allowed", len(body), maxMessage)
	}
	if err != nil {
		refuse(conn, err)
		return nil
	}
	_ = write(conn, framed([]byte{answered}, body), askTimeout) // who asked has gone, or is too slow
	return nil
}
