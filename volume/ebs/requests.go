package ebs

import (
	"time"
)

// zombie is how long a request without an answer may still be executed: EC2 refuses one whose signature is
// older (RequestExpired).
const zombie = 15 * time.Minute

// forget drops what is known of a volume only as long as it stays attached to this machine.
func (j *Journal) forget(vol string) {
	if j.Held != nil && j.Held.Volume == vol {
		j.Held = nil
	}
	if j.Formatting != nil && j.Formatting.Volume == vol {
		j.Formatting = nil
	}
}

// cure says what an operator can do about a refusal.
func cure(m Meaning) string {
	switch m {
	case Denied:
		return " (`holdfast volume doctor` names the permission that is missing)"
	case NoRoom:
		return " (detach what this instance does not need, or take a larger instance type)"
	case Misplaced:
		return " (volume and instance must be in one zone)"
	case Invalid:
		return " (see `holdfast volume doctor`)"
	}
	return ""
}
