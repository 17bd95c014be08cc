package embedded

import (
	"cmp"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// Names are what the members of a cluster are called. {slot} stands for the slot in a pattern.
type Names struct {
	// Member is the pattern of the members' names in etcd, with {slot} once in it; empty means {slot}. A name is what
	// `etcdctl member list` shows and the key by which etcd finds itself in a static initial cluster, nothing else: a
	// member's ID is the hash of its peer URLs, the token and, where it was added later, the time
	// (etcdserver/api/membership, computeMemberID), and a joiner finds its ID by its peer URL
	// (ValidateClusterAndAssignIDs). So another pattern never changes who a member is; a member tells the others its
	// new name when it starts. Founders should have the same one: until each has started, the others call it by their
	// own.
	Member string
	// PeerURL is the pattern of the members' peer URLs.
	PeerURL string
	// Peer is the DNS name in every peer certificate of this cluster (R12), used with peer TLS unless names or CNs are
	// configured.
	Peer string
	// Hosts are more names of which a peer's certificate may bear one in the place of Peer: the host names of a pattern
	// that holdfast did not make. Members that it did not start bear no other. With any, a member must bear the host
	// name of its URL, as everywhere else.
	Hosts []string
}

// of is what etcd calls the member of a slot.
func (n Names) of(slot string) string {
	return strings.Replace(cmp.Or(n.Member, settings.SlotMark), settings.SlotMark, slot, 1)
}

// named returns peer URLs by slot as those by the members' names.
func (n Names) named(bySlot map[string]string) map[string]string {
	peers := make(map[string]string, len(bySlot))
	for slot, peerURL := range bySlot {
		peers[n.of(slot)] = peerURL
	}
	return peers
}

// slotOf reads the slot from the peer URL, which a member has before it has a name. Only a member that was not made by
// us has another URL; then its name may tell.
func (n Names) slotOf(m *membership.Member) string {
	for _, u := range m.PeerURLs {
		if slot, ok := cutSlot(n.PeerURL, u); ok {
			return slot
		}
	}
	for _, u := range m.PeerURLs { // of the other scheme, while the members go from http to https (R24)
		if slot, ok := cutSlot(settings.PeerHost(n.PeerURL), settings.PeerHost(u)); ok {
			return slot
		}
	}
	if slot, ok := cutSlot(cmp.Or(n.Member, settings.SlotMark), m.Name); ok {
		return slot
	}
	return m.Name
}

// SlotOfURL returns the slot in a peer URL, and whether it fits the pattern.
func (n Names) SlotOfURL(peerURL string) (slot string, ok bool) { return cutSlot(n.PeerURL, peerURL) }

// cutSlot returns what stands in text in the place of the pattern's {slot}.
func cutSlot(pattern, text string) (string, bool) {
	before, after, ok := strings.Cut(pattern, settings.SlotMark)
	rest, begins := strings.CutPrefix(text, before)
	if !ok || !begins {
		return "", false
	}
	slot, ok := strings.CutSuffix(rest, after)
	return slot, ok && slot != "" && !strings.Contains(slot, ".") // else the end of another pattern would match
}

// listed is an entry of etcd's member list in the words of the plan.
func (n Names) listed(m *membership.Member) plan.MemberInfo {
	info := plan.MemberInfo{ID: uint64(m.ID), Slot: n.slotOf(m), Learner: m.IsLearner, Started: m.Name != ""}
	if len(m.PeerURLs) == 1 {
		info.PeerURL = m.PeerURLs[0]
	}
	return info
}
