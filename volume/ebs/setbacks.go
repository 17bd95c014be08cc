package ebs

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// setbacks are recent failures on this machine. What has failed is left alone for a while.
type setbacks struct {
	*site

	mu     sync.Mutex           // guards what follows
	until  map[string]time.Time // by volume: when to try again
	failed map[string]string    // by volume: the last attempt's error, which an operator may have to fix
	names  map[string]int       // by device name: how often it has failed
}

func newSetbacks(s *site) *setbacks {
	return &setbacks{site: s, until: map[string]time.Time{}, failed: map[string]string{}, names: map[string]int{}}
}

// fail leaves a volume alone for a while, and keeps the reason to show it meanwhile.
func (s *setbacks) fail(vol string, err error) {
	s.postpone(vol, setback)
	s.mu.Lock()
	s.failed[vol] = err.Error()
	s.mu.Unlock()
}

// postpone leaves a volume alone for about d.
func (s *setbacks) postpone(vol string, d time.Duration) {
	s.mu.Lock()
	s.until[vol] = time.Now().Add(s.jitter(d))
	delete(s.failed, vol)
	s.mu.Unlock()
}

// of returns until when a volume is left alone, and the last attempt's error if an operator may have to fix it.
func (s *setbacks) of(vol string) (until time.Time, failed string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until[vol], s.failed[vol]
}

// spoil records that a device name has failed.
func (s *setbacks) spoil(name string) {
	s.mu.Lock()
	s.names[name]++
	s.mu.Unlock()
}

// freeNames returns the device names to try, in random order. So two clusters on one machine seldom choose the same
// name, and a name whose last attachment was stuck is seldom the next one (kubernetes#31891). Names that have failed
// come last, the most frequent failures at the end.
func (s *setbacks) freeNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := deviceNames()
	for i := len(names) - 1; i > 0; i-- {
		j := s.random(int64(i + 1))
		names[i], names[j] = names[j], names[i]
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(s.names[a], s.names[b]) })
	return names
}

// deviceNames returns the names that AWS recommends for EBS volumes of Linux instances, /dev/sd[f-p] and
// /dev/xvd[b-c][a-z] ("Device names for volumes on Amazon EC2 instances"). On Nitro instances a name is only a label,
// and the device is found by its serial.
func deviceNames() []string {
	var names []string
	for c := 'f'; c <= 'p'; c++ {
		names = append(names, "/dev/sd"+string(c))
	}
	for _, b := range "bc" {
		for c := 'a'; c <= 'z'; c++ {
			names = append(names, "/dev/xvd"+string(b)+string(c))
		}
	}
	return names
}
