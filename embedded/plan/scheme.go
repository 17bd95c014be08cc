package plan

import (
	"fmt"
	"strings"
)

// unlike says why etcd here must not be started in a generation, whose record has its peer URLs for ever; "" if nothing
// speaks against it. With TLS there and without it in the configuration, or the reverse, its members would not
// understand a word from this one. With other host names this node would find none of them: it resolves those that its
// configuration makes. The port is only where to listen.
func (o resuming) unlike(r *Record) string {
	was, wasHost, known := hostURL(r.Charter.PeerURL)
	is, isHost, said := hostURL(o.Config.PeerURL)
	if !known || !said || was == is && wasHost == isHost {
		return ""
	}
	then, cure := "its member would not be understood", "its members keep TLS for good: set tls.mode to files, ca or auto, with the authorities that they have"
	switch {
	case was == is:
		then, cure = "it would not find the other members", "set etcd.peer-url to "+r.Charter.PeerURL
	case was == "http":
		cure = "its members can have no TLS: set tls.mode to off, and tls.insecure to true if other machines reach them; to have TLS, restore a backup into a new cluster"
	}
	return fmt.Sprintf("slot %s does not start: %s was founded with the peer URL %s, and the configuration says %s, so that %s: %s",
		o.Claim.Slot, r.Token(), r.Charter.PeerURL, o.Config.PeerURL, then, cure)
}

// hostURL splits a pattern of peer URLs into scheme and host.
func hostURL(pattern string) (scheme, host string, ok bool) {
	scheme, rest, ok := strings.Cut(pattern, "://")
	if i := strings.LastIndex(rest, ":"); i >= 0 {
		rest = rest[:i]
	}
	return scheme, rest, ok
}
