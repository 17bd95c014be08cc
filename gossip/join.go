package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

const (
	joinFirst   = 200 * time.Millisecond // first retry while alone; jittered by half
	joinAlone   = 3 * time.Second        // longest pause while alone
	joinSlow    = 6 * time.Second        // mean pause while in company
	joinTargets = 16                     // addresses tried at once
	resolveTime = 6 * time.Second        // a resolver asks the second nameserver after 5 s (resolv.conf(5), timeout)
)

// seeker finds seeds and lost nodes that are not in the mesh.
type seeker struct {
	cfg    Config
	port   uint16                                         // of seeds that name none, 0 for our own
	source func(ctx context.Context, alone bool) []string // nil for none; not changed after Run has begun
	dns    *net.Resolver
	parts
}

// newSeeker makes a seeker that asks the nameservers for seeds. net.DefaultResolver may be a [Resolver], which knows
// the members' names only once a seed was found, and until then denies them.
func newSeeker(p parts, cfg Config, port uint16) *seeker {
	return &seeker{parts: p, cfg: cfg, port: port, dns: new(net.Resolver)}
}

// UseSeeds has a source of seeds, written as in Config.Seeds, asked at every attempt to join. alone says that no other
// process is live: a source for which looking is expensive looks harder then. ctx ends after 6 s, and the source must
// return then. Call UseSeeds before Run.
func (s *seeker) UseSeeds(source func(ctx context.Context, alone bool) []string) { s.source = source }

// rejoin looks for seeds and lost nodes that are not in the mesh, until ctx ends. memberlist forgets a lost node after
// a while and never looks for it again: this is what heals a partitioned mesh.
func (s *seeker) rejoin(ctx context.Context, list *memberlist.Memberlist) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = joinFirst, joinAlone
	for {
		s.join(ctx, list, s.missing(ctx))
		wait := pause.NextBackOff()
		if !s.known.alone() {
			pause.Reset()
			wait = joinSlow/2 + rand.N(joinSlow)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// target is an address to try; seed is what the config calls it, "" for a lost node.
type target struct {
	seed string
	at   netip.AddrPort
	told bool // by the source, whose answer may be outdated
}

// key names the target's problem.
func (t target) key() string { return "seed/" + t.at.String() }

// missing returns the seeds and lost nodes that memberlist does not hear, without ourselves.
func (s *seeker) missing(ctx context.Context) []target {
	targets := s.seeds(ctx)
	heard, lost := s.known.addresses()
	heard[s.known.Address()] = true
	for _, at := range lost {
		targets = append(targets, target{at: at})
	}
	targets = slices.DeleteFunc(targets, func(t target) bool {
		if !heard[t.at] {
			heard[t.at] = true // once each
			return false
		}
		s.settle(t.key())
		return true
	})
	if len(targets) > joinTargets {
		rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		targets = targets[:joinTargets]
	}
	return targets
}

// seeds returns the addresses of the configured seeds, of those in the seeds file, and of what the source knows.
func (s *seeker) seeds(ctx context.Context) []target {
	names := slices.Clone(s.cfg.Seeds)
	if path := s.cfg.SeedsFile; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			s.warn("seeds-file", fmt.Sprintf("gossip.seeds-file: %v", err))
		} else {
			s.settle("seeds-file")
			names = append(names, lines(string(text))...)
		}
	}
	configured := len(names)
	if s.source != nil {
		limited, cancel := context.WithTimeout(ctx, resolveTime)
		names = append(names, s.source(limited, s.known.alone())...)
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	found := make([][]target, len(names))
	var lookups sync.WaitGroup
	for i, name := range names {
		lookups.Go(func() { found[i] = s.resolve(ctx, name, i >= configured) })
	}
	lookups.Wait()
	return slices.Concat(found...)
}

// resolve looks up a seed; memberlist's own lookup takes no context.
func (s *seeker) resolve(ctx context.Context, seed string, told bool) []target {
	key := "seed/name/" + seed // not that of an address
	host, port, err := splitSeed(seed, cmp.Or(s.port, s.known.Address().Port()))
	var ips []netip.Addr
	if err == nil {
		ips, err = s.dns.LookupNetIP(ctx, "ip", host)
	}
	if err != nil {
		s.show(key, fmt.Sprintf("seed %s: %v", seed, err))
		return nil
	}
	s.settle(key)
	var out []target
	for _, ip := range ips {
		out = append(out, target{seed, netip.AddrPortFrom(ip.Unmap(), port), told})
	}
	return out
}

// join tries all targets at once, so that a silent one costs the others no time.
func (s *seeker) join(ctx context.Context, list *memberlist.Memberlist, targets []target) {
	var tries sync.WaitGroup
	defer tries.Wait()
	for _, t := range targets {
		tries.Go(func() {
			_, err := list.Join([]string{t.at.String()})
			if err == nil {
				s.joins.WithLabelValues("joined").Inc()
				s.settle(t.key())
				s.lg.Info("joined gossip", zap.Stringer("through", t.at))
				return
			}
			if ctx.Err() == nil {
				s.joins.WithLabelValues("failed").Inc()
				s.unjoined(t, err)
			}
		})
	}
}

// unjoined reports why a seed could not be joined, unless it is known what is wrong with its address. That is not
// logged: a first node, or a lone one, has only seeds that do not answer.
func (s *seeker) unjoined(t target, err error) {
	s.lg.Debug("node not joined", zap.Stringer("address", t.at), zap.Error(err))
	heard, _ := s.known.addresses() // it may have come to us while we tried
	if t.seed == "" || heard[t.at] || t.told && !s.known.alone() || s.blamed(t.at.Addr().String()) {
		return // with other nodes in the mesh, an outdated answer of a source is no problem
	}
	s.show(t.key(), fmt.Sprintf("seed %s (%s): %s", t.seed, t.at, onlyError(err)))
}

// onlyError takes memberlist's list of one error apart.
func onlyError(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
