package cmd

import (
	"holdfast/embedded/health"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// provider is any kind of volumes.
type provider interface {
	volume.Provider
	Problems() []string // for status; it waits for nothing
}

// claimStatus is how far the claim of a volume is, for those who ask.
func claimStatus(p *ebs.Provider) *health.ClaimStatus {
	if p == nil {
		return nil
	}
	now := p.Progress()
	return &health.ClaimStatus{State: now.State, Volume: now.Volume, Why: now.Why, Since: now.Since}
}
