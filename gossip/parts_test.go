package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// Questions under way are bounded, and anyone who asks too much is told so.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	b := startBound(t, ca, node("b"), a)
	await(t, "b sees a", patience, sees(b, "a"))
	ctx, end := context.WithCancel(t.Context())
	var under sync.WaitGroup
	defer under.Wait()
	defer end()
	for range maxQuestions / 4 {
		under.Go(func() {
			for ctx.Err() == nil {
				_, _ = b.Ask(ctx, "a", []byte("wait"))
			}
		})
	}
	await(t, "they are under way", 20*time.Second, func() bool { return open(&a.streams.questions) == maxQuestions/4 })
	await(t, "one more is refused", 20*time.Second, func() bool {
		_, err := b.Ask(ctx, "a", []byte("who"))
		return err != nil && strings.Contains(err.Error(), errBusy.Error())
	})
	if err := attack(t, a, papersOf(t, ca, watcherName), forQuestion, framed([]byte("who"))); err == nil {
		t.Error("an observer was answered")
	}
}

func TestNewcomerIsSentOurState(t *testing.T) {
	t.Parallel()
	m, other := newMesh(t), node("b")
	m.Publish([]byte("fact"))
	<-m.behind
	delegate{m}.NotifyJoin(&memberlist.Node{Name: other.process(), Addr: net.IPv4(10, 0, 0, 2), Port: 1, Meta: encode(other)})
	select {
	case <-m.behind:
	default:
		t.Error("nobody is told to look")
	}
	peers := m.view.behind()
	if len(peers) != 1 || peers[0].gossip != netip.MustParseAddrPort("10.0.0.2:1") {
		t.Errorf("to send to: got %+v, want b", peers)
	}
}

// A send that fails is repeated after a pause, with what is the newest state by then.
func TestFailedSendIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, other := newMesh(t), node("b")
		m.known.joined(other, at)
		m.Publish([]byte("one"))
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		began, sent := time.Now(), 0
		m.disseminate(ctx, func(to *memberlist.Node, word []byte) error {
			told, err := decodeWords(word)
			if err != nil || to.Name != other.process() {
				t.Errorf("to %s: %v", to.Name, err)
			}
			sent++
			state, after, want := string(told.entries[0].State), time.Since(began), "one"
			if sent > 1 {
				want = "two"
			}
			if state != want || after != time.Duration(sent-1)*resendPause {
				t.Errorf("send %d: got %q after %v", sent, state, after)
			}
			if sent == 3 {
				return nil
			}
			m.Publish([]byte("two"))
			return errors.New("connection refused")
		})
		if sent != 3 {
			t.Errorf("sent %d times, want 3: what has arrived is not repeated", sent)
		}
	})
}

// One more live process than a push/pull may tell of is refused; those that are live are not.
func TestOneNodeTooMany(t *testing.T) {
	m := newMesh(t)
	describe := func(n Meta) *memberlist.Node {
		return &memberlist.Node{Name: n.process(), Addr: net.IPv4(10, 0, 0, 2), Port: 1, Meta: encode(n)}
	}
	var last *memberlist.Node
	for i := range maxNodes - 1 {
		last = describe(node(fmt.Sprintf("n%d", i)))
		if err := (delegate{m}).NotifyAlive(last); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		delegate{m}.NotifyJoin(last)
	}
	if err := (delegate{m}).NotifyAlive(describe(node("more"))); !errors.Is(err, errNodes) {
		t.Errorf("one more: got %v, want %v", err, errNodes)
	}
	if err := (delegate{m}).NotifyAlive(last); err != nil {
		t.Errorf("one that is live: %v", err)
	}
}
