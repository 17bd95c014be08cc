package ebs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// view is what the last scan saw.
type view struct {
	volumes []Volume
	err     error
	at      time.Time
	next    time.Time     // no scan for a claim before
	pause   time.Duration // after an error
	looks   time.Duration // the least age at which somebody alone has it looked at again
}

// sight is since when a volume's claim has looked as it does, on this process's own clock.
type sight struct {
	text  string
	since time.Time
}

const (
	scanRetry   = time.Second      // first pause after a scan that failed; it doubles
	scanSlowest = 30 * time.Second // longest pause after one
	aloneFirst  = 5 * time.Second  // how old a view may be for somebody who is alone; it doubles
	aloneLast   = time.Minute      // and its limit
)

// scan returns the cluster's volumes in the whole region. Between two looks it returns what was seen at the
// first one: a standby asks often, and EC2 counts. A device that was not here then has it look at once.
func (p *Provider) scan(ctx context.Context, devices map[string]string) ([]Volume, error) {
	p.mu.Lock()
	v := p.view
	news := false
	for id := range devices {
		news = news || !p.devices[id]
		p.devices[id] = true
	}
	p.mu.Unlock()
	if time.Now().Before(v.next) && (!news || v.err != nil) {
		return v.volumes, v.err
	}
	if p.Progress().State != StateStandby {
		p.at(StateScanning, "", "")
	}
	return p.look(ctx)
}

// look scans now.
func (p *Provider) look(ctx context.Context) ([]Volume, error) {
	volumes, err := p.cloud.Volumes(ctx, Query{Tags: p.cfg.filters()})
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("look for the cluster's volumes: %w", err)
		if ctx.Err() != nil {
			return nil, err // that somebody could not wait longer says nothing of EC2
		}
		p.view.pause = min(max(2*p.view.pause, scanRetry), scanSlowest)
		p.view.err, p.view.next = err, now.Add(p.jitter(p.view.pause))
		return nil, err
	}
	slices.SortFunc(volumes, func(a, b Volume) int { return compare(a.ID, b.ID) })
	p.view = view{volumes: volumes, at: now, next: now.Add(p.jitter(p.cfg.ScanEvery)), looks: p.view.looks}
	for _, v := range volumes {
		if text := v.Tags[p.cfg.ClaimTag] + " " + v.State; p.sights[v.ID].text != text || p.sights[v.ID].since.IsZero() {
			p.sights[v.ID] = sight{text, now}
		}
	}
	return volumes, nil
}

// again makes the next claim look anew.
func (p *Provider) again() {
	p.mu.Lock()
	p.view.next = time.Time{}
	p.mu.Unlock()
}

// Observe has Seeds work for a process that never claims a volume, on whatever machine that may ask EC2.
func (p *Provider) Observe() {
	p.mu.Lock()
	p.observing = true
	p.mu.Unlock()
}

// Seeds returns the gossip addresses of the nodes whose claims stand in the tags of the cluster's volumes in
// the whole region, as host:port. They are those of the last scan; who is alone has it repeated, ever more
// seldom.
func (p *Provider) Seeds(ctx context.Context, alone bool) []string {
	p.mu.Lock()
	v, known := p.view, p.me.Instance != "" || p.observing
	age := time.Since(v.at)
	due := known && alone && age >= max(v.looks, aloneFirst) && !time.Now().Before(v.next.Add(-p.cfg.ScanEvery))
	if due {
		p.view.looks = min(max(2*v.looks, aloneFirst), aloneLast)
	}
	if !alone {
		p.view.looks = 0
	}
	p.mu.Unlock()
	if due {
		if fresh, err := p.look(ctx); err == nil {
			v.volumes = fresh
		}
	}
	seeds := map[string]bool{}
	for _, vol := range v.volumes {
		if t, err := ParseTag(vol.Tags[p.cfg.ClaimTag]); err == nil && t.Address.IsValid() {
			seeds[t.Address.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(seeds))
}

// jitter spreads a duration by a quarter to both sides.
func (p *Provider) jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - d/4 + time.Duration(p.random(int64(d/2)))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
