package ebs

import (
	"slices"
)

// freeNames returns the device names to try, in random order, so that two clusters on one machine seldom
// choose the same one, and a name whose last attachment was stuck is not the next one (kubernetes#31891).
// Names that did not work come last.
func (p *Provider) freeNames() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := deviceNames()
	for i := len(names) - 1; i > 0; i-- {
		j := p.random(int64(i + 1))
		names[i], names[j] = names[j], names[i]
	}
	slices.SortStableFunc(names, func(a, b string) int {
		switch bad, worse := p.names[a], p.names[b]; {
		case bad == worse:
			return 0
		case bad:
			return 1
		}
		return -1
	})
	return names
}

// spoil remembers a device name that did not work.
func (p *Provider) spoil(name string) {
	p.mu.Lock()
	p.names[name] = true
	p.mu.Unlock()
}
