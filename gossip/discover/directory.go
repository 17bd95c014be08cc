package discover

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is a member of the cluster and where it was last known to be.
type Entry struct {
	Slot    string     `json:"slot"`
	Node    string     `json:"node,omitempty"`
	Address netip.Addr `json:"address"`
	// Clients are the URLs at which the member says clients reach it. PeerURL has the scheme and port of its peer URL.
	Clients []string `json:"clients,omitempty"`
	PeerURL string   `json:"peer_url,omitempty"`
	Control string   `json:"control,omitempty"` // host:port where the node answers other machines; "" if nowhere
	Leader  bool     `json:"leader"`
	// Live: the node is heard of now. Else all this is what was known last.
	Live  bool      `json:"live"`
	Since time.Time `json:"since,omitzero"` // when this process first saw the member at this node and address
}

func (e Entry) same(f Entry) bool {
	return e.Slot == f.Slot && e.Node == f.Node && e.Address == f.Address && slices.Equal(e.Clients, f.Clients) &&
		e.PeerURL == f.PeerURL && e.Control == f.Control && e.Leader == f.Leader && e.Live == f.Live
}

// View is what is heard of a cluster at one moment.
type View struct {
	Known   bool     // Voters is a leader's word
	Voters  []string // slots that have a member with a vote
	Running []Entry  // of these, those that say they run
}

// directory is what is known of the members. Its zero value knows nothing. It is not safe for concurrent use.
type directory struct {
	entries map[string]Entry // by slot
	missing []string         // voters of the last view that were never heard of
	known   bool             // a leader's word was heard
}

// Recall adds what was known in an earlier life, where nothing newer is.
func (d *directory) Recall(entries []Entry) {
	for _, e := range entries {
		if _, ok := d.entries[e.Slot]; !ok && e.Slot != "" && e.Address.IsValid() {
			e.Live, e.Leader = false, false
			d.set(e)
		}
	}
}

func (d *directory) set(e Entry) {
	if d.entries == nil {
		d.entries = map[string]Entry{}
	}
	d.entries[e.Slot] = e
}

// Update takes in a view and reports whether that changed any entry.
func (d *directory) Update(v View, now time.Time) bool {
	before := maps.Clone(d.entries)
	d.known = d.known || v.Known
	running := map[string]bool{}
	for _, e := range v.Running {
		if !e.Address.IsValid() {
			continue
		}
		running[e.Slot] = true
		e.Since = now
		if old := before[e.Slot]; old.Node == e.Node && old.Address == e.Address && !old.Since.IsZero() {
			e.Since = old.Since
		}
		d.set(e)
	}
	for slot, e := range d.entries {
		switch {
		case v.Known && len(v.Voters) > 0 && !slices.Contains(v.Voters, slot):
			delete(d.entries, slot)
		case !running[slot] && (e.Live || e.Leader):
			e.Live, e.Leader = false, false
			d.entries[slot] = e
		}
	}
	d.missing = slices.DeleteFunc(slices.Clone(v.Voters), func(slot string) bool { return running[slot] })
	return !maps.EqualFunc(before, d.entries, Entry.same)
}

// Entries returns what is known, by slot.
func (d *directory) Entries() []Entry {
	out := make([]Entry, 0, len(d.entries))
	for _, slot := range slices.Sorted(maps.Keys(d.entries)) {
		out = append(out, d.entries[slot])
	}
	return out
}

// service returns the scheme and port of the first URL that has both, 0 for none. What stands for the host does not
// matter: in a pattern it is no host.
func service(urls ...string) (scheme string, port uint16) {
	for _, text := range urls {
		scheme, host, found := strings.Cut(text, "://")
		i := strings.LastIndexByte(host, ':')
		if n, err := strconv.ParseUint(host[i+1:], 10, 16); found && i >= 0 && err == nil && n > 0 {
			return scheme, uint16(n)
		}
	}
	return "", 0
}
