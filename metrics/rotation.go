package metrics

import (
	"slices"
	"time"
)

// rotationPhases are the phases of a rotation of the certificate authorities that holdfast has made. Members do not
// know the last one, in which servers still accept clients' certificates of the old authority.
var rotationPhases = []string{"settled", "introduced", "issuing", "retiring"}

// Rotation is the state of a rotation of the certificate authorities.
type Rotation struct {
	Phase      string    // one of rotationPhases; "" if the authorities are not holdfast's, or not known yet
	Began      time.Time // zero if no rotation is open
	OldClients int       // clients that have presented a certificate of the outgoing authority
}

var (
	rotationPhaseDesc = desc("tls_rotation_phase",
		"1 for the phase that the rotation of an authority of ours is in, 0 for the others; settled while none is open.",
		"authority", "phase")
	rotationBeganDesc = desc("tls_rotation_began_timestamp_seconds",
		"When the rotation of the authorities that is open began, in seconds since 1970; no series while none is open.")
	rotationClientsDesc = desc("tls_rotation_old_clients",
		"Clients' certificates of an authority that goes which this member has seen since the node started; "+
			"no series while no rotation is open.")
	clientsEndDesc = desc("tls_client_not_after_seconds",
		"When the last certificate of `holdfast tls client` for a client ends, in seconds since 1970, by its name.",
		"client")
)

func (r Rotation) collect(put sink) {
	if r.Phase == "" {
		return
	}
	last := len(rotationPhases) - 1
	settled := slices.Index(rotationPhases, r.Phase) == last
	for i, phase := range rotationPhases {
		put.gauge(rotationPhaseDesc, number(phase == r.Phase), "clients", phase)
		if i < last {
			put.gauge(rotationPhaseDesc, number(phase == r.Phase || i == 0 && settled), "peers", phase)
		}
	}
	if !r.Began.IsZero() {
		put.gauge(rotationBeganDesc, float64(r.Began.Unix()))
		put.gauge(rotationClientsDesc, float64(r.OldClients))
	}
}
