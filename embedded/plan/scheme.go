package plan

import (
	"fmt"
	"strings"
)

// urlConflict says why etcd must not be started here in a generation with this record, "" if nothing prevents it. If
// only one of record and configuration has TLS, this member and the others could not talk, unless they are going from
// http to https (R24). With another host name this node would not find the others: it resolves only the names that its
// configuration makes. The port only says where to listen.
func (o resuming) urlConflict(r *Record) string {
	was, wasHost, known := hostURL(r.Charter.PeerURL)
	is, isHost, said := hostURL(o.Config.PeerURL)
	promised := o.Disk.Ledger.Secured
	secure := SecureURL(*r, o.Config.PeerURL)
	switch {
	case !known || !said:
		return ""
	case promised != nil && promised.PeerURL != o.Config.PeerURL:
		return fmt.Sprintf("slot %s does not start: its disk has noted that it serves the other members %s, and the "+
			"configuration says %s: set tls.mode with the authorities, etcd.listen-peer-urls and tls.from-http as they were; "+
			"the change to https, once it has begun, must be finished",
			o.Claim.Slot, promised.PeerURL, o.Config.PeerURL)
	case secure != "" && o.Config.FromHTTP != "" && !o.secured(r, secure) &&
		!strings.HasSuffix(r.Charter.PeerURL, ":"+o.Config.FromHTTP):
		return fmt.Sprintf("slot %s does not start: %s was founded with the peer URL %s, and the http URL in "+
			"etcd.listen-peer-urls has port %s, where no other member looks for it: set it to that of the peer URL",
			o.Claim.Slot, r.Token(), r.Charter.PeerURL, o.Config.FromHTTP)
	case was == is && wasHost == isHost, secure != "" && (o.Config.FromHTTP != "" || o.secured(r, secure)):
		return ""
	}
	then, cure := "its member could not talk to the others", "its members keep TLS for good: set tls.mode to files, ca or "+
		"auto, with the authorities that they have"
	switch {
	case was == is:
		then, cure = "it would not find the other members", "set etcd.peer-url to "+r.Charter.PeerURL
	case secure != "":
		cure = "set tls.from-http to true, with both URLs in etcd.listen-peer-urls, until no member has a URL with http; " +
			"or, where no other node has TLS, set tls.mode to off, and tls.insecure to true if other machines reach them"
	case was == "http":
		cure = "set etcd.peer-url to one with https and the host of that, and tls.from-http to true; or tls.mode to off, " +
			"and tls.insecure to true if other machines reach them"
	}
	return fmt.Sprintf("slot %s does not start: %s was founded with the peer URL %s, and the configuration says %s, so "+
		"that %s: %s", o.Claim.Slot, r.Token(), r.Charter.PeerURL, o.Config.PeerURL, then, cure)
}

// hostURL splits a pattern of peer URLs into scheme and host.
func hostURL(pattern string) (scheme, host string, ok bool) {
	scheme, rest, ok := strings.Cut(pattern, "://")
	if i := strings.LastIndex(rest, ":"); i >= 0 {
		rest = rest[:i]
	}
	return scheme, rest, ok
}
