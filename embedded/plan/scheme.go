package plan

import (
	"fmt"
	"strings"
)

// unlike says why etcd here must not be started in a generation: the peer URLs in its record are with TLS and the
// configuration is without, or the reverse. Its members would not understand a word from this one, and the record is
// forever. "" if nothing speaks against it.
func (o resuming) unlike(r *Record) string {
	was, _, known := strings.Cut(r.Charter.PeerURL, "://")
	is, _, said := strings.Cut(o.Config.PeerURL, "://")
	if !known || !said || was == is {
		return ""
	}
	cure := "its members keep TLS for good: set tls.mode to files, ca or auto, with the authorities that they have"
	if was == "http" {
		cure = "its members can have no TLS: set tls.mode to off, and tls.insecure to true if other machines reach them; to have TLS, restore a backup into a new cluster"
	}
	return fmt.Sprintf("slot %s does not start: %s was founded with the peer URL %s, and the configuration says %s, so that its member would not be understood: %s",
		o.Claim.Slot, r.Token(), r.Charter.PeerURL, o.Config.PeerURL, cure)
}
