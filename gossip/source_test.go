package gossip

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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
	await(t, "a question", 5*time.Second, func() bool { return len(shared.questions()) > 0 })
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

// A source that does not come back costs one attempt some seconds, and nothing else.
func TestHangingSourceDelaysNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{}, 1)
	b := startWith(t, "main", node("b"), seeded(a), func(context.Context, bool) []string {
		poke(asked)
		<-release
		return nil
	})
	select {
	case <-asked:
	case <-time.After(5 * time.Second):
		t.Fatal("the source was never asked")
	}
	await(t, "b sees a", resolveTime+5*time.Second, sees(b, "a"))
	b.stop() // nor does it keep Run from ending
}

func TestSourceIsAskedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer []string
		var hang chan struct{}
		asked := 0
		s := &source{ask: func(context.Context, bool) []string {
			asked++
			if hang != nil {
				<-hang
			}
			return answer
		}}
		check := func(what string, took time.Duration, questions int, want ...string) {
			t.Helper()
			began := time.Now()
			got := s.seeds(t.Context(), true)
			passed := time.Since(began)
			synctest.Wait()
			if passed != took || asked != questions || !slices.Equal(got, want) {
				t.Errorf("%s: got %q after %v and %d questions, want %q after %v and %d", what, got, passed, asked, want, took, questions)
			}
		}
		answer = []string{"x"}
		check("at once", 0, 1, "x")
		hang, answer = make(chan struct{}), []string{"y"}
		check("hanging", resolveTime, 2, "x")
		check("still hanging", 0, 2, "x")
		close(hang)
		synctest.Wait()
		hang, answer = nil, nil
		if s.last[0] != "y" {
			t.Errorf("a late answer: got %q, want y", s.last)
		}
		check("nothing any more", 0, 3)
	})
}

// A source that heeds its context is not left behind.
func TestSourceHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{ask: func(ctx context.Context, _ bool) []string {
			<-ctx.Done()
			return []string{"late"}
		}}
		began := time.Now()
		s.seeds(t.Context(), false)
		if took := time.Since(began); took != resolveTime {
			t.Errorf("took %v, want %v", took, resolveTime)
		}
		synctest.Wait()
		if s.busy || !slices.Equal(s.last, []string{"late"}) {
			t.Errorf("got %q, busy %v; want the late answer", s.last, s.busy)
		}
	})
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
