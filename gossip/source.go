package gossip

import (
	"context"
	"slices"
	"sync"
)

// AddSeeds adds a source of seeds, written as in Config.Seeds, that is asked at every attempt to join. alone says that
// no other process is live: a source for which looking is expensive looks harder then. ctx ends after 3 s. A source
// that answers later, or never, does not hold up the attempt; until it answers, its last answer stands, and it is not
// asked again. Call AddSeeds before Run.
func (s *seeker) AddSeeds(ask func(ctx context.Context, alone bool) []string) {
	s.sources = append(s.sources, &source{ask: ask})
}

// fromSources returns the answers of all sources.
func (s *seeker) fromSources(ctx context.Context) []string {
	alone := s.known.alone()
	answers := make([][]string, len(s.sources))
	var asks sync.WaitGroup
	for i, source := range s.sources {
		asks.Go(func() { answers[i] = source.seeds(ctx, alone) })
	}
	asks.Wait()
	return slices.Concat(answers...)
}

// source asks in the background, one question at a time. Only the caller waits for the answer, for at most resolveTime:
// what is behind it, an API or a disk, must not keep us from all other seeds.
type source struct {
	ask func(ctx context.Context, alone bool) []string

	mu   sync.Mutex
	busy bool // a question is under way
	last []string
}

// seeds returns the answer to a new question, or the last one when there is none in time.
func (s *source) seeds(ctx context.Context, alone bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return s.last
	}
	s.busy = true
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	answered := make(chan struct{})
	go func() {
		defer cancel()
		defer close(answered)
		answer := s.ask(ctx, alone)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.busy = answer, false
	}()
	s.mu.Unlock()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	s.mu.Lock()
	return s.last
}
