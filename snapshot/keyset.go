package snapshot

import "math/bits"

// keySet holds keys as hashes of 63 bits, each with whether the key is live. It is a table with open addressing: for
// half a million keys a map takes twice as much, and leaves as much again behind when it grows, which stays for long in
// a process with a large heap.
type keySet struct {
	slots []uint64 // a power of two of them; 0 is free, the lowest bit says that the key is live
	used  int
}

// newKeySet returns a set with room for some keys. It grows with more.
func newKeySet(keys int) *keySet {
	return &keySet{slots: make([]uint64, 1<<bits.Len(uint(max(keys, 8)*4/3)))}
}

// find returns the slot of a key, or the free one where it belongs.
func (s *keySet) find(hash uint64) *uint64 {
	hash = occupied(hash)
	for i := hash >> 1; ; i++ {
		slot := &s.slots[i&uint64(len(s.slots)-1)]
		if *slot == 0 || *slot&^1 == hash {
			return slot
		}
	}
}

// occupied is the content of a slot: the hash without its lowest bit, which must not be that of a free slot.
func occupied(hash uint64) uint64 { return max(hash&^1, 2) }

// put adds a key, or replaces what is known of it.
func (s *keySet) put(hash uint64, live bool) {
	if s.used > len(s.slots)*3/4 {
		old := s.slots
		s.slots = make([]uint64, 2*len(old))
		for _, slot := range old {
			if slot != 0 {
				*s.find(slot) = slot
			}
		}
	}
	slot := s.find(hash)
	if *slot == 0 {
		s.used++
	}
	*slot = occupied(hash)
	if live {
		*slot |= 1
	}
}

func (s *keySet) has(hash uint64) bool { return *s.find(hash) != 0 }

// live reports whether any key is.
func (s *keySet) live() bool {
	for _, slot := range s.slots {
		if slot&1 != 0 {
			return true
		}
	}
	return false
}
