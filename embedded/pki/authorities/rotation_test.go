package authorities

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// A rotation is shown from its first to its last phase: what it waits for, since when, until when, and what comes next.
func TestRotationIsShown(t *testing.T) {
	at := func(hours int) time.Time { return rotationStart.Add(time.Duration(hours) * time.Hour) }
	first := *paperEdition(1, rotationStart)
	begun := first.next(stepBegin, paperEdition(2, at(10)), Order{}, "root asked for it", at(10))
	free := begun.next(stepHurry, nil, Order{Now: true}, "", at(20))
	switched := free.next(stepSwitch, nil, Order{}, "", at(30))
	done := switched.next(stepSettle, nil, Order{}, "", at(40))
	old, fresh := pki.Fingerprint(first.Peers.primary()), pki.Fingerprint(done.Peers.primary())
	oldClients, freshClients := pki.Fingerprint(first.Clients.primary()), pki.Fingerprint(done.Clients.primary())
	one := func(issuer string, trusts ...string) View {
		stance := pki.Stance{Trusts: trusts, Issuer: issuer}
		return View{Members: []Stance{{Slot: "a", Known: true, Running: true, Stance: stance}}}
	}
	paused := one(old, old, fresh)
	paused.Paused = true
	held := "until " + begun.Hold.Format(time.RFC3339)
	if s := first.Rotation(one(old, old), at(5)); s != nil {
		t.Errorf("before any rotation: %+v", s)
	}
	for name, tt := range map[string]struct {
		e            Edition
		v            View
		since, until time.Time
		phase, waits string
		next         string
	}{
		"held":               {begun, one(old, old, fresh), at(10), at(1000), "introduced", held, "sign"},
		"held, one is late":  {begun, one(old, old), at(10), at(1000), "introduced", "slot a trusts " + fresh, "sign"},
		"free, one is late":  {free, one(old, old), at(20), at(1000), "introduced", "until slot a trusts " + fresh, "sign"},
		"free, all trust":    {free, one(old, old, fresh), at(20), at(1000), "introduced", "until the leader looks", "sign"},
		"free, nobody known": {free, View{}, at(20), at(1000), "introduced", "until the members are known", "sign"},
		"paused":             {free, paused, at(20), at(1000), "introduced", "holdfast resume", "sign"},
		"issuing":            {switched, one(old, old, fresh), at(30), at(1000), "issuing", "slot a presents", "stop"},
		"retiring":           {done, one(fresh, fresh), at(40), at(1000), "retiring", "--drop-old", "refuse clients"},
	} {
		s := tt.e.Rotation(tt.v, at(50))
		if s == nil || s.Phase != tt.phase ||
			!s.Since.Equal(tt.since) || !s.Began.Equal(at(10)) || !s.Until.Equal(tt.until) ||
			!strings.Contains(s.Waits, tt.waits) || !strings.Contains(s.Next, tt.next) || s.Cause != "root asked for it" ||
			!slices.Equal(s.Old, []string{oldClients}) || s.New != freshClients {
			t.Errorf("%s: got %+v", name, s)
		}
		if s == nil {
			continue
		}
		text := s.Text(at(50))
		for _, part := range []string{"CA ROTATION " + tt.phase, tt.waits, "root asked for it"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: want %q in %q", name, part, text)
			}
		}
	}
	dropped := done.next(stepDrop, nil, Order{DropOld: true}, "", at(60))
	if s := dropped.Rotation(one(fresh, fresh), at(61)); s != nil {
		t.Errorf("after the last phase: %+v", s)
	}
}

// The node's own state and series follow its edition, without reading the store.
func TestRotationOfANode(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	a := s.node(dir)
	if r := a.Rotation(View{}, time.Now()); a.Current() != nil || r != nil {
		t.Errorf("before the authorities are known: %+v", r)
	}
	s.peers(a)
	if r := a.Rotation(View{}, time.Now()); a.Current() == nil || r != nil {
		t.Errorf("before a rotation: %+v", r)
	}
	s.rotated(a)
	r := a.Rotation(View{}, time.Now())
	if r == nil || r.Phase != health.RotationRetiring || r.Began.IsZero() || r.Cause != "an operator asked for it" || problem(a) != "" {
		t.Errorf("got %+v, %q", r, problem(a))
	}
	again := s.node(dir) // the process has restarted
	s.peers(again)
	if after := again.Rotation(View{}, time.Now()); again.Current() == nil || after == nil || after.Phase != r.Phase {
		t.Errorf("after a restart: got edition %v, rotation %+v", again.Current(), after)
	}
}

// An unreachable store is reported once, and not as a problem of a rotation. A rotation that waits as it should is no
// problem.
func TestRotationThatIsNotWrong(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	if _, err := a.Advance(t.Context(), View{}, Order{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	if a.drive(t.Context(), View{Leader: true}); problem(a) != "" {
		t.Errorf("got %q", problem(a))
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.drive(t.Context(), View{Leader: true})
	if got := a.Findings(); len(got) != 1 || got[0].Code != health.AuthorityFails {
		t.Errorf("without the store: %q", health.Texts(got))
	}
}
