package certificates

import (
	"crypto/x509"
	"testing"
	"time"

	"holdfast/embedded/pki"
)

// A certificate is due once two thirds of its life are over.
func TestDue(t *testing.T) {
	now := time.Now()
	has := &x509.Certificate{NotBefore: now, NotAfter: now.Add(3 * time.Hour)}
	for after, want := range map[time.Duration]bool{0: false, 119 * time.Minute: false, 121 * time.Minute: true,
		4 * time.Hour: true} {
		if got := pki.Due(has, nil, now.Add(after)); got != want {
			t.Errorf("after %s: got %t, want %t", after, got, want)
		}
	}
}
