package plan

import (
	"testing"

	"pgregory.net/rapid"
)

func seats(disks ...string) Charter {
	c := Charter{Cluster: "main", Generation: 1, PeerURL: "x{slot}"}
	for i, d := range disks {
		c.Seats = append(c.Seats, Seat{Slot: string(rune('a' + i)), Disk: d, Epoch: 1})
	}
	return c
}

func TestKeepsMajority(t *testing.T) {
	for _, test := range []struct {
		old, now Charter
		want     bool
	}{
		{seats("1"), seats("1"), true},
		{seats("1"), seats("2"), false},
		{seats("1", "2"), seats("1", "3"), false},
		{seats("1", "2", "3"), seats("4", "2", "3"), true},
		{seats("1", "2", "3"), seats("4", "5", "3"), false},
		{seats("1", "2", "3", "4"), seats("1", "2", "5", "6"), false},
		{seats("1", "2", "3", "4"), seats("1", "2", "3", "6"), true},
	} {
		if got := test.now.keepsMajority(test.old); got != test.want {
			t.Errorf("%v after %v: got %v, want %v", test.now.Seats, test.old.Seats, got, test.want)
		}
	}
}

// proper draws charters as holders make them: each slot once, sorted.
func proper(t *rapid.T) Charter {
	c := Charter{Cluster: "main", Generation: 1, PeerURL: "x{slot}"}
	for _, s := range []string{"a", "b", "c", "d"}[:rapid.IntRange(0, 4).Draw(t, "size")] {
		c.Seats = append(c.Seats, Seat{Slot: s, Disk: name.Draw(t, "disk"), Epoch: rapid.Uint64Range(1, 4).Draw(t, "epoch")})
	}
	return c
}

func TestNewerIsAPartialOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := proper(t), proper(t), proper(t)
		if a.newer(a) {
			t.Fatalf("%v is newer than itself", a)
		}
		if a.newer(b) && b.newer(a) {
			t.Fatalf("%v and %v are both newer", a, b)
		}
		if a.newer(b) && b.newer(c) && !a.newer(c) {
			t.Fatalf("not transitive: %v, %v, %v", a, b, c)
		}
	})
}

func TestMergeAndFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := proper(t), proper(t)
		if a.sameDisks(b) {
			if m := a.merge(b); !m.equal(b.merge(a)) || a.newer(m) || b.newer(m) || !m.merge(a).equal(m) {
				t.Fatalf("%v and %v merge to %v", a, b, m)
			}
			return
		}
		if len(a.Seats) != len(b.Seats) {
			return
		}
		a.follow(b)
		if !a.newer(b) {
			t.Fatalf("%v does not follow %v", a, b)
		}
		if again := a.merge(a); !again.equal(a) {
			t.Fatalf("%v changed to %v", a, again)
		}
	})
}

func TestIDNamesEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := charters(t), charters(t)
		if got, want := a.ID() == b.ID(), a.equal(b); got != want {
			t.Fatalf("same ID %v, equal %v: %v and %v", got, want, a, b)
		}
	})
}
