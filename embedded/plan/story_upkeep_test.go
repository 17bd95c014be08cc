package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// upkeep reads what a story says about databases and authorities: ours, and those of peers named before.
func (r *reader) upkeep(noun string, p map[string]string, has func(string) bool) {
	if noun == "database" {
		i := slices.IndexFunc(r.o.Peers, func(peer Peer) bool { return peer.Node == p["0"] })
		f := r.o.Peers[i].Facts
		f.Fragmented, f.Full, f.Defragging, f.Short = has("fragmented"), has("full"), has("defragging"), has("short")
		return
	}
	if noun == "room" {
		r.o.Claim.Room = Room{Free: r.mib(p["free"]), Size: r.mib(p["size"])}
		r.o.Claim.Short = r.o.Claim.Room.Short(has("short"))
		return
	}
	m := &r.o.Member
	if noun == "papers" {
		trusts, issuer := strings.Split(p["trusts"], ","), p["presents"]
		if len(p) == 2 {
			m.Trusts, m.Issuer = trusts, issuer
		}
		for _, peer := range r.o.Peers {
			if peer.Node == p["0"] {
				peer.Facts.Trusts, peer.Facts.Issuer = trusts, issuer
			}
		}
		return
	}
	if noun == "stale" {
		m.Stale = m.Stale || len(p) == 0
		for _, peer := range r.o.Peers {
			peer.Facts.Stale = peer.Facts.Stale || peer.Node == p["0"]
		}
		return
	}
	r.o.Config.Upkeep.Cure, r.o.Compacted, r.o.Resting = has("cure"), has("once"), p["resting"]
	m.Fragmented, m.Full, m.Snapshot = has("fragmented"), has("full"), has("snapshot")
	m.Revision, m.Compacted = int64(r.number(p["revision"])), int64(r.number(p["compacted"]))
	if has("alarm") {
		m.Alarms = []Alarm{{p["alarm"], 0}}
	}
	if has("corrupt") {
		m.Alarms = []Alarm{{Corrupt, ID(r.number(p["corrupt"]))}}
	}
	if slot, node, ok := strings.Cut(p["lock"], "/"); ok {
		m.Lock = &Lock{Slot: slot, Node: node, Purpose: "drain"}
	}
}

// mib reads a number of MiB, none for 0.
func (r *reader) mib(s string) int64 {
	n, err := strconv.Atoi(cmp.Or(s, "0"))
	r.err = cmp.Or(r.err, err)
	return int64(n) << 20
}
