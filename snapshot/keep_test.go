package snapshot_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/snapshot"
)

// usual is the default configuration.
var usual = snapshot.Default().Keep

// at is a good backup of this cluster.
func at(created time.Time) snapshot.Backup {
	return snapshot.Backup{Meta: snapshot.Meta{
		Name: snapshot.FormatName(created), Created: created, Cluster: ours.Cluster, Lineage: ours.Lineage, Verified: created.Add(time.Second),
	}}
}

func namesOf(backups []snapshot.Backup) (names []string) {
	for _, b := range backups {
		names = append(names, b.Name)
	}
	return names
}

// without returns the backups that remain after some are removed.
func without(backups, removed []snapshot.Backup) []snapshot.Backup {
	gone := map[string]bool{}
	for _, b := range removed {
		gone[b.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(backups), func(b snapshot.Backup) bool { return gone[b.Name] })
}

func TestExpired(t *testing.T) {
	start := time.Date(2026, 7, 1, 0, 5, 0, 0, time.UTC)
	var all []snapshot.Backup
	for i := range 4 * 48 { // two days, every 15 minutes from 00:05
		all = append(all, at(start.Add(time.Duration(i)*15*time.Minute)))
	}
	now := all[len(all)-1].Created.Add(time.Minute) // the newest is from 23:50
	for name, test := range map[string]struct {
		keep snapshot.Keep
		want []string // the times that stay
	}{
		"newest alone":         {snapshot.Keep{Newest: 2}, []string{"02 23:35", "02 23:50"}},
		"one at least":         {snapshot.Keep{}, []string{"02 23:50"}},
		"all of the last hour": {snapshot.Keep{All: time.Hour}, []string{"02 23:05", "02 23:20", "02 23:35", "02 23:50"}},
		"hourly":               {snapshot.Keep{Hourly: 3 * time.Hour}, []string{"02 21:50", "02 22:50", "02 23:50"}},
		"daily":                {snapshot.Keep{Daily: 48 * time.Hour}, []string{"01 23:50", "02 23:50"}},
		"daily, too old":       {snapshot.Keep{Daily: 24 * time.Hour}, []string{"02 23:50"}},
		"everything":           {snapshot.Keep{All: 30 * 24 * time.Hour}, nil},
	} {
		var got []string
		for _, b := range without(all, test.keep.Expired(all, now)) {
			got = append(got, b.Created.Format("02 15:04"))
		}
		if test.want == nil && len(got) == len(all) {
			continue
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: want %q to stay, got %q", name, test.want, got)
		}
	}
}

// TestExpiredSpares tests each kind of backup that is never pruned under the worst conditions.
func TestExpiredSpares(t *testing.T) {
	keep := snapshot.Keep{Newest: 2}
	for name, change := range map[string]func(*snapshot.Backup){
		"foreign":    func(b *snapshot.Backup) { b.Foreign = true },
		"legacy":     func(b *snapshot.Backup) { b.Legacy = true },
		"pinned":     func(b *snapshot.Backup) { b.Pinned = true },
		"damaged":    func(b *snapshot.Backup) { b.Problem = "the data is missing" },
		"unverified": func(b *snapshot.Backup) { b.Verified = time.Time{} },
		"future":     func(b *snapshot.Backup) { b.Created = midday.Add(24 * time.Hour) },
	} {
		old := at(midday.Add(-1000 * 24 * time.Hour))
		rest := []snapshot.Backup{at(midday.Add(-3 * time.Hour)), at(midday.Add(-2 * time.Hour)), at(midday.Add(-time.Hour))}
		if got := namesOf(keep.Expired(append(rest, old), midday)); !slices.Equal(got, []string{old.Name, rest[0].Name}) {
			t.Errorf("control: want the old one and the third newest, got %q", got)
		}
		change(&old)
		if got := namesOf(keep.Expired(append(rest, old), midday)); !slices.Equal(got, []string{rest[0].Name}) {
			t.Errorf("%s: want only the third newest, got %q", name, got)
		}
		// It does not take the place of a good one either.
		recent := at(midday)
		change(&recent)
		if got := namesOf(keep.Expired(append(rest, recent), midday)); name != "pinned" && !slices.Equal(got, []string{rest[0].Name}) {
			t.Errorf("%s and recent: want the two newest good ones to stay, got %q", name, got)
		}
	}
}

// TestExpiredWrongClock checks that the newest by generation and revision stay, whatever clock they were made with.
func TestExpiredWrongClock(t *testing.T) {
	held := func(created time.Time, generation uint64, revision int64) snapshot.Backup {
		b := at(created)
		b.Generation, b.Content.Revision = generation, revision
		return b
	}
	newest := held(midday.Add(-10*365*24*time.Hour), 2, 5) // made with a clock ten years behind
	before := held(midday.Add(-9*365*24*time.Hour), 2, 4)
	old := held(midday.Add(-8*365*24*time.Hour), 2, 3)
	last := held(midday.Add(-time.Hour), 1, 1000)
	all := []snapshot.Backup{last, before, newest, old}
	for n, want := range map[int][]string{0: {before.Name, old.Name, last.Name}, 1: {before.Name, old.Name, last.Name}, 2: {old.Name, last.Name}} {
		if got := namesOf(snapshot.Keep{Newest: n}.Expired(all, midday)); !slices.Equal(got, want) {
			t.Errorf("newest %d: want %q, got %q", n, want, got)
		}
	}
	if got := namesOf(snapshot.Keep{Newest: 1, All: 24 * time.Hour}.Expired(all, midday)); !slices.Equal(got, []string{before.Name, old.Name}) {
		t.Errorf("what the clock calls recent stays, too: got %q", got)
	}
}

// TestExpiredWithoutGenerations checks that the last backups of an etcd that holdfast does not run stay, after it was
// restored from an older one: its revisions have begun again at a lower one.
func TestExpiredWithoutGenerations(t *testing.T) {
	var all []snapshot.Backup
	for i, revision := range []int64{1000, 1001, 500, 501} {
		b := at(midday.Add(time.Duration(i-4) * time.Hour))
		b.Content.Revision = revision
		all = append(all, b)
	}
	if got := namesOf(snapshot.Keep{Newest: 2}.Expired(all, midday)); !slices.Equal(got, namesOf(all[:2])) {
		t.Errorf("want that the two before the restore expire, %q, got %q", namesOf(all[:2]), got)
	}
	if newest, _ := snapshot.Newest(all, midday); newest.Name != all[3].Name {
		t.Errorf("newest: want %s, got %s", all[3].Name, newest.Name)
	}
}

// TestExpiredYear saves every 15 minutes for a year and prunes every two hours.
func TestExpiredYear(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all, kept []snapshot.Backup
	for i := range 365 * 96 {
		b := at(start.Add(time.Duration(i) * 15 * time.Minute))
		all, kept = append(all, b), append(kept, b)
		if i%8 == 0 {
			kept = without(kept, usual.Expired(kept, b.Created))
		}
	}
	now := all[len(all)-1].Created
	kept = without(kept, usual.Expired(kept, now))
	// The last hour has 4 backups, the last of which is also its hour's. The week has 168 hours. 358 days are before it.
	if got, want := len(kept), 3+7*24+358; got != want {
		t.Errorf("after a year: want %d, got %d", want, got)
	}
	if once := without(all, usual.Expired(all, now)); !slices.Equal(namesOf(kept), namesOf(once)) {
		t.Errorf("pruned often %d are left, pruned once %d", len(kept), len(once))
	}
}

// TestExpiredJump lets a clock jump a year ahead after three months of backups, and makes many with it.
func TestExpiredJump(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []snapshot.Backup
	save := func(from time.Time, n int) {
		for i := range n {
			all = append(all, at(from.Add(time.Duration(i)*15*time.Minute)))
			if i%4 == 0 || i == n-1 {
				all = without(all, usual.Expired(all, all[len(all)-1].Created))
			}
		}
	}
	save(start, 90*96)
	before := len(all)
	last := all[len(all)-1].Created
	if got := usual.Expired(all, last.Add(365*24*time.Hour)); len(got) != 0 {
		t.Errorf("a year ahead and no new backup: want that nothing expires, got %d", len(got))
	}
	save(last.Add(365*24*time.Hour), 10)
	days := map[time.Time]bool{}
	for _, b := range all {
		days[b.Created.Truncate(24*time.Hour)] = true
	}
	if len(days) < 90 {
		t.Errorf("a year ahead and ten new backups: want one of each of 90 days, got %d days, %d backups of %d", len(days), len(all), before)
	}
	// The clock is corrected. What was made while it was wrong is in the future, and stays.
	future := len(all)
	save(last.Add(time.Hour), 10*96)
	if got := len(without(all, usual.Expired(all, last.Add(11*24*time.Hour)))); got < future {
		t.Errorf("set right: want at least %d, got %d", future, got)
	}
}

// TestExpiredAlways simulates stores of several clusters over months: gaps, clocks that jump, failed saves, pins, and
// deletions by people.
func TestExpiredAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := snapshot.Keep{
			All:    time.Duration(rapid.IntRange(0, 6).Draw(t, "all")) * time.Hour,
			Hourly: time.Duration(rapid.IntRange(0, 72).Draw(t, "hourly")) * time.Hour,
			Daily:  time.Duration(rapid.IntRange(0, 60).Draw(t, "daily")) * 24 * time.Hour,
			Newest: rapid.IntRange(0, 5).Draw(t, "newest"),
		}
		clock := midday
		var all []snapshot.Backup
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 19).Draw(t, "step"); step {
			case 0: // a gap
				clock = clock.Add(time.Duration(rapid.IntRange(1, 24*100).Draw(t, "gap")) * time.Hour)
			case 1: // a jump, forward or back
				clock = clock.Add(time.Duration(rapid.IntRange(-24*400, 24*400).Draw(t, "jump")) * time.Hour)
			case 2: // a person deletes
				if n := len(all); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "deleted")
					all = slices.Delete(all, i, i+1)
				}
			case 3: // a person pins or unpins
				if n := len(all); n > 0 {
					b := &all[rapid.IntRange(0, n-1).Draw(t, "pinned")]
					b.Pinned = !b.Pinned
				}
			case 4, 5:
				all = wantSpared(t, keep, all, clock)
			default:
				clock = clock.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
				b := at(clock)
				switch step {
				case 6:
					b.Foreign = true
				case 7:
					b.Problem, b.Verified = "incomplete", time.Time{}
				case 8:
					b.Legacy, b.Verified = true, time.Time{}
				}
				if !slices.ContainsFunc(all, func(o snapshot.Backup) bool { return o.Name == b.Name }) {
					all = append(all, b)
				}
			}
		}
		wantSpared(t, keep, all, clock)
	})
}

// wantSpared prunes, checks the invariants, and returns what is left.
func wantSpared(t *rapid.T, keep snapshot.Keep, all []snapshot.Backup, now time.Time) []snapshot.Backup {
	var good []snapshot.Backup // those that may be pruned, newest first
	for _, b := range all {
		if b.Problem == "" && !b.Foreign && !b.Legacy && !b.Verified.IsZero() && !b.Created.After(now) {
			good = append(good, b)
		}
	}
	slices.SortFunc(good, func(a, b snapshot.Backup) int { return b.Created.Compare(a.Created) })
	newest := namesOf(good[:min(len(good), max(keep.Newest, 1))])
	may := namesOf(good)

	expired := keep.Expired(all, now)
	hours, days := map[time.Time]bool{}, map[time.Time]bool{}
	for _, b := range expired {
		switch {
		case !slices.Contains(may, b.Name) || b.Pinned:
			t.Fatalf("pruned what must stay: %+v at %s", b, now)
		case slices.Contains(newest, b.Name):
			t.Fatalf("pruned %s, one of the newest %q", b.Name, newest)
		case good[0].Created.Sub(b.Created) < keep.All:
			t.Fatalf("pruned %s, younger than %s", b.Name, keep.All)
		}
	}
	left := without(all, expired)
	for _, b := range left {
		if !slices.Contains(may, b.Name) {
			continue
		}
		hours[b.Created.Truncate(time.Hour)], days[b.Created.Truncate(24*time.Hour)] = true, true
	}
	for _, b := range expired { // another backup of its hour or its day is still there
		age := good[0].Created.Sub(b.Created)
		if age < keep.Hourly && !hours[b.Created.Truncate(time.Hour)] || age < keep.Daily && !days[b.Created.Truncate(24*time.Hour)] {
			t.Fatalf("pruned %s, the last of its hour or day, at the age of %s", b.Name, age)
		}
	}
	if again := keep.Expired(left, now); len(again) != 0 {
		t.Fatalf("pruned again: want nothing, got %q", namesOf(again))
	}
	return left
}

// TestExpiredOnceOrOften checks that the result does not depend on how often pruning runs, even with gaps of days.
func TestExpiredOnceOrOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := snapshot.Keep{
			All:    time.Duration(rapid.IntRange(0, 6).Draw(t, "all")) * time.Hour,
			Hourly: time.Duration(rapid.IntRange(0, 10*24).Draw(t, "hourly")) * time.Hour,
			Daily:  time.Duration(rapid.IntRange(0, 60).Draw(t, "daily")) * 24 * time.Hour,
			Newest: 1,
		}
		clock := midday
		var once, often []snapshot.Backup
		for range rapid.IntRange(1, 300).Draw(t, "saves") {
			// A gap plus the day before it must be less than the longest gap that counts in full. Otherwise ages would depend
			// on what is left.
			clock = clock.Add(time.Duration(rapid.OneOf(rapid.IntRange(1, 90), rapid.IntRange(1, 23*60)).Draw(t, "minutes")) * time.Minute)
			once, often = append(once, at(clock)), append(often, at(clock))
			if rapid.Bool().Draw(t, "prune") {
				often = without(often, keep.Expired(often, clock))
			}
		}
		once, often = without(once, keep.Expired(once, clock)), without(often, keep.Expired(often, clock))
		if !slices.Equal(namesOf(once), namesOf(often)) {
			t.Fatalf("%+v: pruned once %q are left, pruned often %q", keep, namesOf(once), namesOf(often))
		}
	})
}
