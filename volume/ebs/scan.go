package ebs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// scanner remembers EC2's last answers about the cluster's volumes, and how long they have been unchanged.
type scanner struct {
	*site
	status *status

	mu        sync.Mutex // guards what follows; never held over a call of Cloud or Host
	view      view
	observing bool                 // only seeds are wanted, no volume
	sights    map[string]sight     // by volume, by instance, or by the subject of since
	devices   map[string]bool      // volumes whose device was seen here
	strangers map[string]time.Time // volumes whose device is here without the cluster's tags: when EC2 has said so
}

func newScanner(s *site, st *status) *scanner {
	return &scanner{site: s, status: st, sights: map[string]sight{}, devices: map[string]bool{},
		strangers: map[string]time.Time{}}
}

// view is the result of the last scan.
type view struct {
	volumes []Volume
	err     error
	at      time.Time
	next    time.Time     // when a claim may scan again
	pause   time.Duration // after an error
	looks   time.Duration // the least age at which a node that is alone has it repeated
}

// sight is since when something has been unchanged, on this process's own clock.
type sight struct {
	text  string
	since time.Time
}

const (
	scanRetry   = time.Second      // first pause after a failed scan; it doubles
	scanSlowest = 30 * time.Second // longest such pause
	aloneFirst  = 5 * time.Second  // how old a view may be for a node that is alone; it doubles
	aloneLast   = time.Minute      // limit of that
)

// scan returns the cluster's volumes in the whole region. A standby asks often, and EC2 limits the rate, so scan
// returns the last view until the next scan is due. A new device on this machine makes it scan at once.
func (s *scanner) scan(ctx context.Context, devices map[string]string) ([]Volume, error) {
	s.mu.Lock()
	v := s.view
	news := false
	for id := range devices {
		news = news || !s.devices[id]
		s.devices[id] = true
	}
	s.mu.Unlock()
	if time.Now().Before(v.next) && (!news || v.err != nil) {
		return v.volumes, v.err
	}
	if s.status.now().State != stateStandby {
		s.status.at(stateScanning, "", "")
	}
	return s.look(ctx)
}

func (s *scanner) look(ctx context.Context) ([]Volume, error) {
	volumes, err := s.cloud.Volumes(ctx, Query{Tags: s.cfg.filters()})
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("look for the cluster's volumes: %w", err)
		if ctx.Err() != nil {
			return nil, err // the caller could not wait longer; that says nothing about EC2
		}
		s.view.pause = min(max(2*s.view.pause, scanRetry), scanSlowest)
		s.view.err, s.view.next = err, now.Add(s.jitter(s.view.pause))
		return nil, err
	}
	slices.SortFunc(volumes, func(a, b Volume) int { return strings.Compare(a.ID, b.ID) })
	s.view = view{volumes: volumes, at: now, next: now.Add(s.jitter(s.cfg.ScanEvery)), looks: s.view.looks}
	for _, v := range volumes {
		s.sighted(v.ID, v.Tags[TagClaim]+" "+v.State)
	}
	return volumes, nil
}

// estrange records that EC2 has shown a volume whose device is here without the cluster's tags.
func (s *scanner) estrange(vol string) {
	s.mu.Lock()
	s.strangers[vol] = time.Now()
	s.mu.Unlock()
}

// stranger reports whether a volume was estranged since a scan was last due.
func (s *scanner) stranger(vol string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.strangers[vol]
	return known && time.Since(since) < s.cfg.ScanEvery
}

// again makes the next claim scan again.
func (s *scanner) again() {
	s.mu.Lock()
	s.view.next = time.Time{}
	s.mu.Unlock()
}

// sighted returns since when something has looked as it does now. The caller holds mu.
func (s *scanner) sighted(what, text string) time.Time {
	if seen := s.sights[what]; seen.text != text || seen.since.IsZero() {
		s.sights[what] = sight{text, time.Now()}
	}
	return s.sights[what].since
}

// instance returns since when an instance has been seen only in its current state.
func (s *scanner) instance(i Instance) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sighted(i.ID, i.State)
}

// unchanged returns since when a volume's claim has been unchanged.
func (s *scanner) unchanged(vol string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sights[vol].since
}

// since reports whether something has been so at every call for at least d.
func (s *scanner) since(what string, so bool, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.sights[what]
	switch {
	case !so:
		delete(s.sights, what)
	case !known:
		s.sights[what] = sight{since: time.Now()}
	}
	return so && known && time.Since(seen.since) >= d
}

// observe makes seeds work for a process that never claims a volume.
func (s *scanner) observe() {
	s.mu.Lock()
	s.observing = true
	s.mu.Unlock()
}

// seeds is [Provider.Seeds].
func (s *scanner) seeds(ctx context.Context, alone bool) []string {
	identified := s.self().Instance != ""
	s.mu.Lock()
	v, known := s.view, identified || s.observing
	due := known && alone && time.Since(v.at) >= max(v.looks, aloneFirst) && (v.err == nil || !time.Now().Before(v.next))
	if !alone {
		s.view.looks = 0
	}
	s.mu.Unlock()
	if due {
		if fresh, err := s.look(ctx); err == nil { // an error has its own pauses
			v.volumes = fresh
			s.mu.Lock()
			s.view.looks = min(max(2*v.looks, aloneFirst), aloneLast)
			s.mu.Unlock()
		}
	}
	found := map[string]bool{}
	for _, vol := range v.volumes {
		if t, err := s.cfg.claim(vol); err == nil && t.Address.IsValid() {
			found[t.Address.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// records is [Provider.Records].
func (s *scanner) records() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	borne := map[string]string{}
	for _, v := range s.view.volumes {
		if token := v.Tags[TagRecord]; token != "" {
			borne[v.ID] = token
		}
	}
	return borne
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
