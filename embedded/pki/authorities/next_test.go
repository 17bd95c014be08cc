package authorities

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

const caLife = 1000 * time.Hour

var rotationStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// paper is an authority that signs nothing, which is enough for a decision.
func paper(name string, made time.Time) keyed {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	key := ed25519.NewKeyFromSeed(seed)
	c := &x509.Certificate{Raw: []byte(name), IsCA: true, NotBefore: made, NotAfter: made.Add(caLife), PublicKey: key.Public()}
	return keyed{Trusted: []pemCertificate{{c}}, Keys: []signing{{Key: pemKey{crypto.Signer(key)}, Made: made}}}
}

func paperEdition(serial int, now time.Time) *Edition {
	return &Edition{Version: editionVersion, Cluster: "main", ID: "x", Serial: uint64(serial), Time: now, Phase: phaseSettled,
		Clients: paper(fmt.Sprintf("clients %d", serial), now), Peers: paper(fmt.Sprintf("peers %d", serial), now)}
}

// simMember is a member of a simulated cluster, as careless as possible. It trusts only what it has read, and presents
// at once what the newest edition that it has read signs with.
type simMember struct {
	slot       string
	lost, down bool
	read       Edition // the newest that its node has read
	trusts     []string
	issuer     string
}

func (m *simMember) restart() {
	m.trusts = nil
	for _, c := range m.read.Peers.Trusted {
		m.trusts = append(m.trusts, pki.Fingerprint(c.Certificate))
	}
}

func (m *simMember) renew() { m.issuer = pki.Fingerprint(m.read.Peers.primary()) }

type simRotation struct {
	*rapid.T
	now     time.Time
	newest  Edition
	members []*simMember
	// forgiven: a member that was not heard of was left behind, as documented.
	forgiven bool
}

func (s *simRotation) view() View {
	v := View{Leader: true}
	for _, m := range s.members {
		v.Members = append(v.Members, Stance{Slot: m.slot, Known: !m.lost, Running: !m.down, Stance: pki.Stance{Trusts: m.trusts, Issuer: m.issuer}})
	}
	return v
}

func (s *simRotation) step(order Order) rotationStep {
	step, why := nextAuthorities(s.newest, s.view(), order, s.now)
	if step == stepNone {
		return step
	}
	if why == "" {
		s.Fatalf("%s without a reason", step)
	}
	end := s.newest.Peers.primary().NotAfter
	if s.newest.Phase == phaseIssuing {
		end = s.newest.Peers.other().NotAfter
	}
	if s.now.After(end.Add(-caLife / 10)) {
		s.forgiven = true
	}
	n := s.newest.next(step, paperEdition(int(s.newest.Serial)+1, s.now), order, why, s.now)
	if err := n.check("main"); err != nil {
		s.Fatalf("%s made a wrong edition: %v", step, err)
	}
	if n.Serial != s.newest.Serial+1 || n.ID != s.newest.ID {
		s.Fatalf("%s led from %d to %d", step, s.newest.Serial, n.Serial)
	}
	s.newest = n
	return step
}

// safe fails when a running member would refuse another one.
func (s *simRotation) safe() {
	for _, a := range s.members {
		for _, b := range s.members {
			if !a.down && !b.down && !s.forgiven && !slices.Contains(b.trusts, a.issuer) {
				s.Fatalf("slot %s presents %s, which slot %s does not trust; edition %d, %s", a.slot, a.issuer, b.slot, s.newest.Serial, s.newest.Phase)
			}
		}
	}
}

// Whatever lags, fails or is requested, no two running members ever refuse each other. When all is well again, the
// rotation ends.
func TestRotationIsSafe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &simRotation{T: rt, now: rotationStart, newest: *paperEdition(1, rotationStart)}
		for i := range rapid.IntRange(1, 5).Draw(rt, "members") {
			m := &simMember{slot: string(rune('a' + i)), read: s.newest}
			m.restart()
			m.renew()
			s.members = append(s.members, m)
		}
		one := func() *simMember { return rapid.SampledFrom(s.members).Draw(rt, "member") }
		rt.Repeat(map[string]func(*rapid.T){
			"read":    func(*rapid.T) { one().read = s.newest },
			"restart": func(*rapid.T) { one().restart() },
			"renew":   func(*rapid.T) { one().renew() },
			"lose":    func(*rapid.T) { one().lost = true },
			"find":    func(*rapid.T) { one().lost = false },
			"stop":    func(*rapid.T) { one().down = true },
			"start": func(*rapid.T) { // it reads before it starts
				if m := one(); m.down {
					m.down, m.lost, m.read = false, false, s.newest
					m.restart()
					m.renew()
				}
			},
			"wait": func(*rapid.T) {
				s.now = s.now.Add(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 50 * time.Hour, 200 * time.Hour}).Draw(rt, "time"))
			},
			"step": func(*rapid.T) { s.step(Order{}) },
			"order": func(*rapid.T) {
				s.step(rapid.SampledFrom([]Order{{Begin: true}, {Now: true}, {DropOld: true}}).Draw(rt, "order"))
			},
			"": func(*rapid.T) { s.safe() },
		})
		s.heal()
	})
}

// heal brings every node back. Within a few steps no rotation is in progress, nothing is overdue, and all present what
// signs.
func (s *simRotation) heal() {
	for range 12 {
		for _, m := range s.members {
			m.lost, m.down, m.read = false, false, s.newest
			m.restart()
		}
		for _, m := range s.members {
			m.renew()
		}
		s.forgiven = false
		s.safe()
		if s.step(Order{}) == stepNone && s.now.Before(s.newest.Hold) {
			s.now = s.newest.Hold
		}
	}
	if s.newest.Phase != phaseSettled || !s.now.Before(s.newest.due()) || len(s.newest.Peers.Trusted) != 1 {
		s.Fatalf("in the end: edition %d, %s, due %s, now %s, %d peers' authorities", s.newest.Serial, s.newest.Phase, s.newest.due(), s.now, len(s.newest.Peers.Trusted))
	}
}

func stance(slot, issuer string, trusts ...string) Stance {
	return Stance{Slot: slot, Known: true, Running: true, Stance: pki.Stance{Trusts: trusts, Issuer: issuer}}
}

func TestNextAuthorities(t *testing.T) {
	first := *paperEdition(1, rotationStart)
	begun := first.next(stepBegin, paperEdition(2, rotationStart.Add(time.Hour)), Order{}, "", rotationStart.Add(time.Hour))
	free := first.next(stepBegin, paperEdition(2, rotationStart.Add(time.Hour)), Order{Now: true}, "", rotationStart.Add(time.Hour))
	switched := free.next(stepSwitch, nil, Order{}, "", rotationStart.Add(2*time.Hour))
	done := switched.next(stepSettle, nil, Order{}, "", rotationStart.Add(3*time.Hour))
	old, fresh := pki.Fingerprint(first.Peers.primary()), pki.Fingerprint(free.Peers.other())
	trusting := []Stance{stance("a", old, old, fresh), stance("b", old, old, fresh)}
	leader := func(m ...Stance) View { return View{Leader: true, Members: m} }
	stopped := Stance{Slot: "b", Known: true}
	soon := rotationStart.Add(4 * time.Hour)
	far := begun
	far.Hold = soon.Add(1000 * time.Hour)
	for name, tc := range map[string]struct {
		e     Edition
		v     View
		order Order
		after time.Duration // since rotationStart; default: soon
		want  rotationStep
		why   string // a part of it
	}{
		"young":                             {e: first, v: leader()},
		"just before two thirds":            {e: first, v: leader(), after: caLife/3*2 - time.Second},
		"at two thirds":                     {e: first, v: leader(), after: caLife / 3 * 2, want: stepBegin, why: "two thirds of the life of " + old},
		"not by a follower":                 {e: first, v: View{}, after: caLife / 3 * 2},
		"not in a pause":                    {e: first, v: View{Leader: true, Paused: true}, after: caLife / 3 * 2},
		"ended, without a leader":           {e: first, v: View{}, after: caLife, want: stepBegin},
		"ended, but another one leads":      {e: first, v: View{Led: true}, after: caLife, why: "look at the clock"},
		"ended, where it leads":             {e: first, v: View{Leader: true, Led: true}, after: caLife, want: stepBegin},
		"ended, by a clock that is wrong":   {e: first, v: View{Clock: "until then"}, after: caLife, why: "waiting until then"},
		"at two thirds, by a wrong clock":   {e: first, v: View{Leader: true, Clock: "until then"}, after: caLife / 3 * 2, why: "until then"},
		"held until then, by a wrong clock": {e: begun, v: View{Leader: true, Members: trusting, Clock: "until then"}, after: time.Hour + (caLife-time.Hour)/2, why: "until then"},
		"ordered, with a wrong clock":       {e: first, v: View{Clock: "until then"}, order: Order{Begin: true}, want: stepBegin},
		"ended, in a pause":                 {e: first, v: View{Paused: true}, after: caLife, want: stepBegin},
		"ordered at a follower":             {e: first, v: View{Paused: true}, order: Order{Begin: true}, want: stepBegin, why: "operator"},
		"nothing to drop":                   {e: first, v: leader(), order: Order{DropOld: true}, why: "no old authority"},
		"held for the clients":              {e: begun, v: leader(trusting...), why: "give clients the new bundle"},
		"held for long: it says until when": {e: far, v: leader(trusting...), why: "give clients the new bundle"},
		"held for long, begun twice":        {e: far, v: leader(trusting...), order: Order{Begin: true}, why: "give clients the new bundle"},
		"held until half of the rest":       {e: begun, v: leader(trusting...), after: time.Hour + (caLife-time.Hour)/2, want: stepSwitch},
		"held, but ordered":                 {e: begun, v: leader(trusting...), order: Order{Now: true}, want: stepSwitch},
		"hold lifted for later":             {e: begun, v: leader(stance("a", old, old)), order: Order{Now: true}, want: stepHurry, why: "waiting until slot a trusts " + fresh},
		"held, but ended":                   {e: begun, v: View{}, after: caLife, want: stepSwitch},
		"all trust":                         {e: free, v: leader(trusting...), want: stepSwitch, why: "every member trusts " + fresh},
		"one does not":                      {e: free, v: leader(trusting[0], stance("b", old, old)), why: "waiting until slot b trusts " + fresh},
		"one trusts nobody":                 {e: free, v: leader(trusting[0], stance("b", "")), why: "slot b trusts"},
		"one is not heard of":               {e: free, v: leader(trusting[0], Stance{Slot: "c"}), why: "waiting until slot c is heard of"},
		"one does not run":                  {e: free, v: leader(trusting[0], stopped), want: stepSwitch},
		"nobody is known":                   {e: free, v: leader(), why: "members are known"},
		"not heard of at the end":           {e: free, v: leader(trusting[0], Stance{Slot: "c"}), after: caLife - caLife/20, want: stepSwitch},
		"one does not, near the end":        {e: free, v: leader(trusting[0], stance("b", old, old)), after: caLife - caLife/20, why: "slot b trusts"},
		"one does not, after the end":       {e: free, v: leader(trusting[0], stance("b", old, old)), after: caLife, want: stepSwitch},
		"not dropped while it signs":        {e: free, v: leader(trusting...), order: Order{DropOld: true}, why: "still sign"},
		"begun twice":                       {e: begun, v: leader(trusting...), order: Order{Begin: true}, why: "give clients"},
		"some present the old one":          {e: switched, v: leader(stance("a", fresh, old, fresh), trusting[1]), why: "waiting until slot b presents " + fresh},
		"all present the new one":           {e: switched, v: leader(stance("a", fresh, old, fresh), stance("b", fresh, old, fresh)), want: stepSettle},
		"presenting, one is unknown":        {e: switched, v: leader(stance("a", fresh, old, fresh), Stance{Slot: "c"}), why: "slot c is heard of"},
		"not dropped before all present":    {e: switched, v: leader(trusting...), order: Order{DropOld: true}, why: "when the rotation has ended"},
		"paused in between":                 {e: switched, v: View{Leader: true, Paused: true, Members: trusting}, why: "resume"},
		"clients keep the old one":          {e: done, v: leader()},
		"until it ends":                     {e: done, v: leader(), after: caLife + time.Minute - 400*time.Hour},
		"drop":                              {e: done, v: leader(), order: Order{DropOld: true}, want: stepDrop},
	} {
		t.Run(name, func(t *testing.T) {
			now := soon
			if tc.after != 0 {
				now = rotationStart.Add(tc.after)
			}
			step, why := nextAuthorities(tc.e, tc.v, tc.order, now)
			if step != tc.want || !strings.Contains(why, tc.why) || (tc.why == "" && step == stepNone && why != "") {
				t.Errorf("got %q, %q; want %q, %q", step, why, tc.want, tc.why)
			}
		})
	}
}

// What clients trust is dropped when it has expired, or when an operator says so. What signs is never dropped.
func TestRetiredAuthorities(t *testing.T) {
	at := rotationStart
	e := *paperEdition(1, at)
	turn := func() {
		at = at.Add(caLife / 4)
		e = e.next(stepBegin, paperEdition(int(e.Serial)+1, at), Order{}, "", at)
		e = e.next(stepSwitch, nil, Order{}, "", at)
		e = e.next(stepSettle, nil, Order{}, "", at)
	}
	turn()
	turn()
	if len(e.Clients.Trusted) != 3 || len(e.Clients.Keys) != 1 || len(e.Peers.Trusted) != 1 || len(e.Peers.Keys) != 1 {
		t.Fatalf("after two rotations: %d and %d, %d and %d", len(e.Clients.Trusted), len(e.Clients.Keys), len(e.Peers.Trusted), len(e.Peers.Keys))
	}
	at = rotationStart.Add(caLife + time.Minute)
	step, why := nextAuthorities(e, View{Leader: true}, Order{}, at)
	if step != stepDrop {
		t.Fatalf("when the first one has ended: %q, %q", step, why)
	}
	signs := e.Clients.primary()
	if e = e.next(step, nil, Order{}, why, at); len(e.Clients.Trusted) != 2 {
		t.Errorf("of three, %d are left, want 2", len(e.Clients.Trusted))
	}
	if e = e.next(stepDrop, nil, Order{DropOld: true}, "", at); len(e.Clients.Trusted) != 1 || e.Clients.primary() != signs {
		t.Errorf("ordered: %d are left", len(e.Clients.Trusted))
	}
	for range maxTrusted {
		at = at.Add(time.Hour)
		if step, _ := nextAuthorities(e, View{Leader: true}, Order{Begin: true}, at); step == stepNone {
			break
		}
		turn()
	}
	if err := e.check("main"); err != nil {
		t.Errorf("rotated as often as it is allowed: %v", err)
	}
}

func TestViewOfARotation(t *testing.T) {
	o := plan.Observation{}
	o.Claim.Slot = "a"
	o.Member = plan.Member{Running: true, Status: plan.Status{Leader: true}, Trusts: []string{"x"}, Issuer: "x", Paused: &plan.Pause{},
		Members: []plan.MemberInfo{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}, {Slot: "d"}, {Slot: "e"}}}
	o.Peers = []plan.Peer{
		{Node: "2", Live: true, Facts: &plan.Facts{Slot: "b", Running: true, Trusts: []string{"y"}, Issuer: "z"}},
		{Node: "3", Facts: &plan.Facts{Slot: "c", Running: true, Trusts: []string{"y"}}}, // lost
		{Node: "4", Live: true, Facts: &plan.Facts{Slot: "d"}},
		{Node: "5", Live: true},
		{Node: "6", Live: true, Facts: &plan.Facts{Slot: "f", Running: true}}, // no member
	}
	want := View{Leader: true, Paused: true, Members: []Stance{
		stance("a", "x", "x"), stance("b", "z", "y"), {Slot: "c"}, {Slot: "d", Known: true}, {Slot: "e"}}}
	if got := ViewOf(o, &health.ClockStatus{}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for name, led := range map[string]struct {
		own  plan.Member
		peer plan.Peer
		want bool
	}{
		"nobody":             {own: plan.Member{Running: true}, peer: plan.Peer{Live: true, Facts: &plan.Facts{Running: true}}},
		"another":            {peer: plan.Peer{Live: true, Facts: &plan.Facts{Running: true, Leader: true}}, want: true},
		"another, long gone": {peer: plan.Peer{Facts: &plan.Facts{Running: true, Leader: true}}},
		"known here":         {own: plan.Member{Running: true, Status: plan.Status{HasLead: true}}, want: true},
	} {
		o := plan.Observation{Peers: []plan.Peer{led.peer}}
		o.Member = led.own
		if got := ViewOf(o, nil).Led; got != led.want {
			t.Errorf("%s: led: got %t", name, got)
		}
	}
}

// A node whose clock was not compared with the store's, or differs by more than certificates are backdated, decides
// nothing by it.
func TestClockInDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		clock *health.ClockStatus
		want  string // a part of it; "": no doubt
	}{
		"not compared": {nil, "was compared"},
		"the same":     {&health.ClockStatus{}, ""},
		"a time zone":  {&health.ClockStatus{Difference: -14 * 3600, Off: true}, ""},
		"ahead":        {&health.ClockStatus{Difference: 25 * 3600, Off: true}, "differs by 25h0m0s"},
		"behind":       {&health.ClockStatus{Difference: -25 * 3600, Off: true}, "differs by 25h0m0s"},
	} {
		if got := ViewOf(plan.Observation{}, tc.clock).Clock; !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: got %q, want %q in it", name, got, tc.want)
		}
	}
	begun := paperEdition(1, rotationStart).next(stepBegin, paperEdition(2, rotationStart), Order{}, "", rotationStart)
	if r := begun.Rotation(View{Leader: true, Clock: "until then"}, rotationStart); !strings.Contains(r.Waits, "until then") {
		t.Errorf("the rotation waits %s", r.Waits)
	}
}
