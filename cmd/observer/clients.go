package observer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"holdfast/cmd/certificates"
	"holdfast/embedded/pki"
	"holdfast/gossip/discover"
	"holdfast/metrics"
)

const (
	// lookEvery is how often a node is asked for the authorities: a rotation gives no more than a minute or so where
	// an operator is in a hurry.
	lookEvery = 30 * time.Second
	// refusedFor is how long a node that has refused to issue is not asked for it again.
	refusedFor = 5 * time.Minute
	firstWait  = time.Second // while no node was heard of
)

// clients keeps certificates on this machine fresh, those of clients, and the observer's and the operator's own. A node
// issues them: no key of an authority is here.
type clients struct {
	files []certificates.Files
	nodes func() []string // host:port of those that may be asked
	lg    *zap.Logger
	again chan struct{} // capacity 1: look at once

	ends     *prometheus.GaugeVec
	renewals *prometheus.CounterVec

	mu    sync.Mutex
	state map[string]kept // by the file of the certificate
}

// kept is what is known of one certificate.
type kept struct {
	until   time.Time // its end; zero if it cannot be read
	failed  string    // why it may be out of date, "" if it is not
	refused time.Time // when no node would issue another one
	due     bool      // it is time for that
	misses  int       // looks that have failed since the last that did not
}

func newClients(files []certificates.Files, nodes func() []string, reg prometheus.Registerer, lg *zap.Logger) *clients {
	return &clients{files: files, nodes: nodes, lg: lg, again: make(chan struct{}, 1), state: map[string]kept{},
		ends: promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_discover_certificate_not_after_seconds",
			Help: "When a certificate that is kept fresh ends, in seconds since 1970.",
		}, []string{"file"}),
		renewals: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_discover_renewals_total", Help: "Certificates renewed, and looks that failed, by result.",
		}, []string{"file", "result"}),
	}
}

// membersControl are where the members that are heard of answer, those that live first.
func membersControl(s discover.State) (at []string) {
	for _, live := range []bool{true, false} {
		for _, e := range s.Entries {
			if e.Live == live && e.Control != "" {
				at = append(at, e.Control)
			}
		}
	}
	return at
}

// look has Run look at once.
func (c *clients) look() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// run keeps them fresh until ctx ends.
func (c *clients) run(ctx context.Context) error {
	for began := time.Now(); ; {
		wait := firstWait
		if len(c.nodes()) > 0 || time.Since(began) > lookEvery {
			wait = refusedFor
			for _, f := range c.files {
				wait = min(wait, c.keep(ctx, f))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.again:
		case <-time.After(wait - rand.N(wait/4)): // not all machines at once
		}
	}
}

// keep brings one up to date and returns when to look again.
func (c *clients) keep(ctx context.Context, f certificates.Files) (next time.Duration) {
	now, k := time.Now(), c.of(f)
	life, renewed, err := c.refresh(ctx, f, &k, now)
	if ctx.Err() != nil {
		return lookEvery // nobody waits for it
	}
	before := k.failed
	k.failed, k.until = "", time.Time{}
	if has, err := f.Read(); err == nil {
		k.until, k.due = has.Leaf.NotAfter, k.due || pki.Due(has.Leaf, nil, now)
		c.ends.WithLabelValues(f.Certificate).Set(float64(k.until.Unix()))
	}
	next, k.misses = min(lookEvery, max(life/20, firstWait)), k.misses+1
	if err == nil {
		k.misses = 0
	}
	// nobody has asked for that, and nodes may renew none
	if err != nil && f.Holder != pki.Client && !k.due && !k.until.IsZero() {
		err, next = nil, min(refusedFor, max(life/20, firstWait))
	}
	if k.misses > 0 { // a node that restarts is back in a moment, and one that refuses does not know better so soon
		next = min(next, firstWait<<min(k.misses-1, 10))
	}
	switch {
	case err != nil:
		k.failed = err.Error()
		c.renewals.WithLabelValues(f.Certificate, "failed").Inc()
	case renewed:
		c.renewals.WithLabelValues(f.Certificate, "renewed").Inc()
		c.lg.Info("certificate renewed", zap.String("file", f.Certificate), zap.Time("until", k.until))
	}
	if k.failed != before && k.failed != "" {
		c.lg.Error("a certificate could not be kept fresh; trying again", zap.String("file", f.Certificate),
			zap.Time("until", k.until), zap.Error(err))
	}
	c.mu.Lock()
	c.state[f.Certificate] = k
	c.mu.Unlock()
	return next
}

// refresh asks the nodes, one after the other, until one has told what there is to be done and has done it.
func (c *clients) refresh(ctx context.Context, f certificates.Files, k *kept, now time.Time) (life time.Duration,
	renewed bool, err error) {
	has, err := f.Read()
	if err != nil {
		return 0, false, err
	}
	life = has.Leaf.NotAfter.Sub(has.Leaf.NotBefore)
	if !now.Before(has.Leaf.NotAfter) {
		return life, false, fmt.Errorf("%s expired at %s, and no node hears who has no valid one: "+
			"issue another one on a node, "+
			"with `%s`, and put it in its place", f.Certificate, has.Leaf.NotAfter.UTC().Format(time.RFC3339), f.Issue())
	}
	nodes := c.nodes()
	if len(nodes) == 0 {
		return life, false, errors.New("no node is known that could be asked: control.listen must be set on the nodes")
	}
	issue := now.Sub(k.refused) > min(refusedFor, life/20)
	k.due = false
	var all []error
	for _, at := range nodes {
		due, renewed, err := f.Refresh(ctx, at, issue, true)
		k.due = k.due || due && !renewed
		if err == nil && (!due || renewed) {
			k.refused = time.Time{}
			return life, renewed, nil
		}
		if err == nil { // it is due, and everybody has refused a moment ago
			return life, false, errors.New(k.failed)
		}
		if due {
			k.refused = now
		}
		all = append(all, fmt.Errorf("%s: %w", at, err))
	}
	return life, false, errors.Join(all...)
}

func (c *clients) of(f certificates.Files) kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state[f.Certificate]
}

// checks say of each whether it can be relied on.
func (c *clients) checks(now time.Time) (all []metrics.Check) {
	for _, f := range c.files {
		k := c.of(f)
		check := metrics.Check{Name: "certificate " + f.Certificate,
			Detail:  "good until " + k.until.UTC().Format(time.RFC3339),
			Warning: k.failed}
		switch {
		case k.failed != "" && !now.Before(k.until):
			check.Err = errors.New(k.failed)
		case k.until.IsZero():
			check.Detail = "not looked at yet"
		}
		all = append(all, check)
	}
	return all
}
