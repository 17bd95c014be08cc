package gossip

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// board is a source of seeds: what others have written where all can read it.
type board struct {
	mu    sync.Mutex
	seeds []string
	alone []bool // what each question said
}

func (b *board) ask(_ context.Context, alone bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone = append(b.alone, alone)
	return slices.Clone(b.seeds)
}

func (b *board) write(seeds ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seeds = seeds
}

func (b *board) questions() []bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.alone)
}

// Nodes that know nothing but the board find each other when it fills.
func TestNodesMeetThroughASource(t *testing.T) {
	t.Parallel()
	var shared board
	a := startWith(t, "main", node("a"), nil, shared.ask)
	b := startWith(t, "main", node("b"), nil, shared.ask)
	await(t, "a question", patience, func() bool { return len(shared.questions()) > 0 })
	if slices.Contains(shared.questions(), false) {
		t.Error("a lone node said that it is not alone")
	}
	shared.write(a.Address().String(), b.Address().String(), "not a host")
	for _, m := range []*member{a, b} {
		for _, name := range []string{"a", "b"} {
			await(t, m.self.Node+" sees "+name, 10*time.Second, sees(m, name))
		}
	}
	await(t, "a complaint about what is no host", 10*time.Second, complains(a, "not a host"))

	// Who is joined, and ourselves, with and without the port, is not sought again.
	ours := a.Address()
	shared.write(ours.String(), ours.Addr().String(), b.Address().String())
	if got := a.missing(t.Context()); len(got) != 0 {
		t.Errorf("sought: got %v, want nobody", got)
	}
	if asked := shared.questions(); asked[len(asked)-1] {
		t.Error("a node in company said that it is alone")
	}
}

// A source that does not answer costs an attempt some seconds, and nothing else.
func TestHangingSourceDelaysNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := startWith(t, "main", node("b"), seeded(a), func(ctx context.Context, _ bool) []string {
		<-ctx.Done()
		return nil
	})
	await(t, "b sees a", resolveTime+patience, sees(b, "a"))
	b.stop() // nor does it keep Run from ending
}

// What a source says may be old: that nobody is there is a problem for who is alone, and for nobody else.
func TestOldWordOfASourceIsNoProblemInCompany(t *testing.T) {
	t.Parallel()
	const gone = "127.0.0.1:1"
	shared := board{seeds: []string{gone}}
	lone := startWith(t, "lone", node("c"), nil, shared.ask)
	await(t, "the lone node complains", 10*time.Second, complains(lone, gone))

	a := start(t, "main", node("a"), nil)
	var later board
	b := startWith(t, "main", node("b"), seeded(a), later.ask)
	await(t, "b sees a", 10*time.Second, sees(b, "a"))
	later.write(gone)
	targets := b.missing(t.Context())
	if len(targets) != 1 || targets[0].at.String() != gone {
		t.Fatalf("sought: got %v, want %s", targets, gone)
	}
	b.unjoined(targets[0], errors.New("connection refused"))
	if complains(b, gone)() {
		t.Errorf("problems of a node in company: got %q", b.Problems())
	}
}
