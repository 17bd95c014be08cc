package embedded

import (
	"cmp"
	"strings"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// Names says what the members of a cluster are called. In a pattern, {slot} stands for the slot.
type Names struct {
	// Member is the pattern of the members' names in etcd. It contains {slot} once; empty means {slot}. `etcdctl member
	// list` shows the name, and etcd finds itself by it in a static initial cluster. It has no other use. A member's ID
	// is the hash of its peer URLs, the token and, if it was added later, the time (etcdserver/api/membership,
	// computeMemberID). A joiner finds its ID by its peer URL (ValidateClusterAndAssignIDs). So another pattern never
	// changes a member's identity: each member announces its new name when it starts. Founders should use the same
	// pattern. Until a founder has started, the others show it with the name from their own pattern.
	Member string
	// PeerURL is the pattern of the members' peer URLs.
	PeerURL string
	// Peer is the DNS name in every peer certificate of this cluster (R12). It is used with peer TLS unless names or
	// CNs are configured.
	Peer string
	// Hosts are further names, of which a peer's certificate may bear one instead of Peer: the host names of a pattern
	// that holdfast did not make. Members that holdfast did not start have only those. If Hosts is set, a member's
	// certificate must bear the host name of its URL, as is usual for TLS.
	Hosts []string
}

// of returns what etcd calls the member of a slot.
func (n Names) of(slot string) string {
	return strings.Replace(cmp.Or(n.Member, settings.SlotMark), settings.SlotMark, slot, 1)
}

// named turns peer URLs by slot into peer URLs by member name.
func (n Names) named(bySlot map[string]string) map[string]string {
	peers := make(map[string]string, len(bySlot))
	for slot, peerURL := range bySlot {
		peers[n.of(slot)] = peerURL
	}
	return peers
}

// slotOf reads the slot from the peer URL, which a member has before it has a name. Only a member that holdfast did not
// create has a URL that does not fit; then its name may show the slot.
func (n Names) slotOf(m ListedMember) string {
	for _, u := range m.PeerURLs {
		if slot, ok := cutSlot(n.PeerURL, u); ok {
			return slot
		}
	}
	for _, u := range m.PeerURLs { // ignore the scheme, while the members go from http to https (R24)
		if slot, ok := cutSlot(settings.PeerHost(n.PeerURL), settings.PeerHost(u)); ok {
			return slot
		}
	}
	if slot, ok := cutSlot(cmp.Or(n.Member, settings.SlotMark), m.Name); ok {
		return slot
	}
	return m.Name
}

// SlotOfURL returns the slot in a peer URL, and whether the URL fits the pattern.
func (n Names) SlotOfURL(peerURL string) (slot string, ok bool) { return cutSlot(n.PeerURL, peerURL) }

// cutSlot returns the part of text that is in the place of the pattern's {slot}, or "" if text does not fit.
func cutSlot(pattern, text string) (string, bool) {
	before, after, ok := strings.Cut(pattern, settings.SlotMark)
	rest, begins := strings.CutPrefix(text, before)
	if !ok || !begins {
		return "", false
	}
	slot, ok := strings.CutSuffix(rest, after)
	// A dot would be that of a longer pattern with the same end.
	if !ok || slot == "" || strings.Contains(slot, ".") {
		return "", false
	}
	return slot, true
}

// listed converts an entry of etcd's member list into a plan.MemberInfo.
func (n Names) listed(m ListedMember) plan.MemberInfo {
	info := plan.MemberInfo{ID: m.ID, Slot: n.slotOf(m), Learner: m.Learner, Started: m.Name != ""}
	if len(m.PeerURLs) == 1 {
		info.PeerURL = m.PeerURLs[0]
	}
	return info
}
