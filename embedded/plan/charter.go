package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Seat is one slot of a charter: the disk that holds it.
type Seat struct {
	Slot  string `json:"slot"`
	Disk  string `json:"disk"`  // random UUID from when the disk was formatted
	Epoch uint64 `json:"epoch"` // of the claim; it only orders charters, and rises with every claim
	// Member is the slot's member in the previous generation, 0 if there was none or it was not known (in the record of a
	// restore), or the slot's member in an adopted cluster. A disk that left the previous generation later, and knows of
	// another member, does not found the new one.
	Member uint64 `json:"member,omitempty"`
}

// Charter is a proposed founding: which disks make which cluster. It is a value: two holders that see the same disks
// make the same charter.
type Charter struct {
	Cluster    string `json:"cluster"`
	Generation uint64 `json:"generation"`
	PeerURL    string `json:"peer_url"` // with the slot written as {slot}; the same for all members
	Seats      []Seat `json:"seats"`    // sorted by slot
}

// ID is the hash of everything in the charter: 16 hexadecimal digits.
func (c Charter) ID() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %d %q", c.Cluster, c.Generation, c.PeerURL)
	for _, s := range c.Seats {
		fmt.Fprintf(&b, " %q %q %d", s.Slot, s.Disk, s.Epoch)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// Seat returns the seat of a slot.
func (c Charter) Seat(slot string) (Seat, bool) {
	for _, s := range c.Seats {
		if s.Slot == slot {
			return s, true
		}
	}
	return Seat{}, false
}

// Slots returns the slots in order.
func (c Charter) Slots() []string {
	slots := make([]string, len(c.Seats))
	for i, s := range c.Seats {
		slots[i] = s.Slot
	}
	return slots
}

// Peers returns the peer URL of every slot, which is what etcd calls the initial cluster.
func (c Charter) Peers() map[string]string {
	peers := make(map[string]string, len(c.Seats))
	for _, s := range c.Seats {
		peers[s.Slot] = PeerURL(c.PeerURL, s.Slot)
	}
	return peers
}

// PeerURL writes a slot into the pattern of a peer URL.
func PeerURL(pattern, slot string) string {
	return strings.ReplaceAll(pattern, "{slot}", slot)
}

// equal reports whether both charters are the same, like comparing their IDs but without hashing.
func (c Charter) equal(d Charter) bool {
	return c.Cluster == d.Cluster && c.Generation == d.Generation && c.PeerURL == d.PeerURL &&
		slices.Equal(c.Seats, d.Seats)
}

// sameDisks reports whether both charters seat the same disks in the same slots, whatever the epochs.
func (c Charter) sameDisks(d Charter) bool {
	return c.PeerURL == d.PeerURL && slices.EqualFunc(c.Seats, d.Seats, func(a, b Seat) bool {
		return a.Slot == b.Slot && a.Disk == b.Disk
	})
}

// newer reports whether c comes after old: no slot's epoch is lower, and one is higher. A slot that is
// in only one of them counts as epoch 0 in the other.
func (c Charter) newer(old Charter) bool {
	higher := false
	for _, s := range c.Seats {
		o, _ := old.Seat(s.Slot)
		if s.Epoch < o.Epoch {
			return false
		}
		higher = higher || s.Epoch > o.Epoch
	}
	for _, o := range old.Seats {
		if _, ok := c.Seat(o.Slot); !ok {
			return false
		}
	}
	return higher
}

// keepsMajority reports whether c has a majority of the old charter's disks.
func (c Charter) keepsMajority(old Charter) bool {
	kept := 0
	for _, o := range old.Seats {
		if slices.ContainsFunc(c.Seats, func(s Seat) bool { return s.Disk == o.Disk }) {
			kept++
		}
	}
	return kept > len(old.Seats)/2
}

// merge returns the charter with the higher epoch of both in every slot. d must have the same disks. So holders that
// saw the same disks at different times agree in the end.
func (c Charter) merge(d Charter) Charter {
	m := c
	m.Seats = slices.Clone(c.Seats)
	for i := range m.Seats {
		m.Seats[i].Epoch = max(m.Seats[i].Epoch, d.Seats[i].Epoch)
	}
	return m
}

func sortSeats(seats []Seat) {
	slices.SortFunc(seats, func(a, b Seat) int { return cmp.Compare(a.Slot, b.Slot) })
}

// Cause says why a generation began.
type Cause string

// The causes of a generation.
const (
	Founding  Cause = "founding" // of the first
	Restored  Cause = "restore"  // of one that began with a backup
	Recovered Cause = "recover"  // of one that began with the data of one disk of the previous generation
	Adopted   Cause = "adopted"  // of the first of a cluster that holdfast did not found (R22)
)

// Record is the founding document of a generation. It never changes. A disk accepts at most one record for each
// generation.
type Record struct {
	Cluster    string `json:"cluster"`
	Generation uint64 `json:"generation"` // 1 for the founding
	ID         string `json:"id"`         // of a founding or an adoption: a hash, so that all nodes agree; else random
	// Line is the IDs of all earlier generations, the founding's first. Of two records of one cluster, one has the other
	// in its line, or they contradict each other.
	Line    []string `json:"line,omitempty"`
	Cause   Cause    `json:"cause"`
	Restore *Restore `json:"restore,omitempty"` // what was proposed; nil for a founding
	Charter Charter  `json:"charter"`
	// Adopted describes an adopted cluster; nil for any other.
	Adopted *Adoption `json:"adopted,omitempty"`
}

// FoundingRecord makes the record of a complete charter.
func FoundingRecord(c Charter) Record {
	return Record{Cluster: c.Cluster, Generation: c.Generation, ID: c.ID(), Cause: Founding, Charter: c}
}

// Peers returns the peer URL of every slot that the generation began with, which etcd calls the initial cluster. After
// a recovery that is only the survivor's slot; the other slots join it.
func (r Record) Peers() map[string]string {
	if r.Restore != nil && r.Cause == Recovered {
		return map[string]string{r.Restore.Survivor: PeerURL(r.Charter.PeerURL, r.Restore.Survivor)}
	}
	return r.Charter.Peers()
}

// Parent is the ID of the generation before, "" for the founding.
func (r Record) Parent() string {
	if len(r.Line) == 0 {
		return ""
	}
	return r.Line[len(r.Line)-1]
}

// descends reports whether b is an earlier generation in the line of r.
func (r Record) descends(b *Record) bool {
	return r.Generation > b.Generation && slices.Contains(r.Line, b.ID)
}

// Lineage is the ID of the founding from which the generation descends. It distinguishes two clusters with one name.
func (r Record) Lineage() string {
	if len(r.Line) == 0 {
		return r.ID
	}
	return r.Line[0]
}

// Floor is a revision that the generation has certainly reached: where a restored or recovered one began. Its backups
// may not show that yet.
func (r Record) Floor() int64 {
	if r.Restore == nil {
		return 0
	}
	return r.Restore.Revision + r.Restore.Bump
}

// EtcdToken is the cluster token that etcd is given: for an adopted cluster its founder's token, if that is known. etcd
// only uses it to found a cluster.
func (r Record) EtcdToken() string {
	if r.Adopted != nil && r.Adopted.Token != "" {
		return r.Adopted.Token
	}
	return r.Token()
}

// Token is the etcd cluster token of the generation. Members with different tokens have different cluster and member
// IDs, and refuse each other.
func (r Record) Token() string {
	return fmt.Sprintf("%s@%d-%s", r.Cluster, r.Generation, r.ID)
}
