package cmd

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// A rotation is shown from its first to its last phase: what it waits for, since when, until when, and what comes next.
func TestRotationIsShown(t *testing.T) {
	at := func(hours int) time.Time { return rotationStart.Add(time.Duration(hours) * time.Hour) }
	first := *paperEdition(1, rotationStart)
	begun := first.next(stepBegin, paperEdition(2, at(10)), rotationOrder{}, "root asked for it", at(10))
	free := begun.next(stepHurry, nil, rotationOrder{Now: true}, "", at(20))
	switched := free.next(stepSwitch, nil, rotationOrder{}, "", at(30))
	done := switched.next(stepSettle, nil, rotationOrder{}, "", at(40))
	old, fresh := pki.Fingerprint(first.Peers.primary()), pki.Fingerprint(done.Peers.primary())
	oldClients, freshClients := pki.Fingerprint(first.Clients.primary()), pki.Fingerprint(done.Clients.primary())
	one := func(issuer string, trusts ...string) rotationView {
		stance := pki.Stance{Trusts: trusts, Issuer: issuer}
		return rotationView{Members: []memberStance{{Slot: "a", Known: true, Running: true, Stance: stance}}}
	}
	paused := one(old, old, fresh)
	paused.Paused = true
	held := "until " + begun.Hold.Format(time.RFC3339)
	if s := first.rotation(one(old, old), at(5)); s != nil {
		t.Errorf("before any rotation: %+v", s)
	}
	for name, tt := range map[string]struct {
		e            edition
		v            rotationView
		since, until time.Time
		phase, waits string
		next         string
	}{
		"held":               {begun, one(old, old, fresh), at(10), at(1000), "introduced", held, "sign"},
		"held, one is late":  {begun, one(old, old), at(10), at(1000), "introduced", "slot a trusts " + fresh, "sign"},
		"free, one is late":  {free, one(old, old), at(20), at(1000), "introduced", "until slot a trusts " + fresh, "sign"},
		"free, all trust":    {free, one(old, old, fresh), at(20), at(1000), "introduced", "until the leader looks", "sign"},
		"free, nobody known": {free, rotationView{}, at(20), at(1000), "introduced", "until the members are known", "sign"},
		"paused":             {free, paused, at(20), at(1000), "introduced", "holdfast resume", "sign"},
		"issuing":            {switched, one(old, old, fresh), at(30), at(1000), "issuing", "slot a presents", "stop"},
		"retiring":           {done, one(fresh, fresh), at(40), at(1000), "retiring", "--drop-old", "refuse clients"},
	} {
		s := tt.e.rotation(tt.v, at(50))
		if s == nil || s.Phase != tt.phase ||
			!s.Since.Equal(tt.since) || !s.Began.Equal(at(10)) || !s.Until.Equal(tt.until) ||
			!strings.Contains(s.Waits, tt.waits) || !strings.Contains(s.Next, tt.next) || s.Cause != "root asked for it" ||
			!slices.Equal(s.Old, []string{oldClients}) || s.New != freshClients {
			t.Errorf("%s: got %+v", name, s)
		}
		if s == nil {
			continue
		}
		text := shownRotation(*s, at(50))
		for _, part := range []string{"CA ROTATION " + tt.phase, tt.waits, "root asked for it"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: want %q in %q", name, part, text)
			}
		}
	}
	dropped := done.next(stepDrop, nil, rotationOrder{DropOld: true}, "", at(60))
	if s := dropped.rotation(one(fresh, fresh), at(61)); s != nil {
		t.Errorf("after the last phase: %+v", s)
	}
}

// The node's own state and series follow its edition, without a question to the store.
func TestRotationOfANode(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	if got := a.sample(rotationView{}, time.Now()); got.Phase != "" || a.Rotation(rotationView{}, time.Now()) != nil {
		t.Errorf("before the authorities are known: %+v", got)
	}
	s.peers(a)
	if got := a.sample(rotationView{}, time.Now()); got.Phase != "settled" || !got.Began.IsZero() {
		t.Errorf("before a rotation: %+v", got)
	}
	s.rotated(a)
	if got := a.sample(rotationView{}, time.Now()); got.Phase != "retiring" || got.Began.IsZero() {
		t.Errorf("after it: %+v", got)
	}
	r := a.Rotation(rotationView{}, time.Now())
	if r == nil || r.Cause != "an operator asked for it" || problem(a) != "" {
		t.Errorf("got %+v, %q", r, problem(a))
	}
}

// That the store is away is said once, and not of a rotation; a rotation that waits as it should is nothing wrong.
func TestRotationThatIsNotWrong(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	if _, err := a.advance(t.Context(), rotationView{}, rotationOrder{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	if a.drive(t.Context(), rotationView{Leader: true}); problem(a) != "" {
		t.Errorf("got %q", problem(a))
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.drive(t.Context(), rotationView{Leader: true})
	if got := a.Findings(); len(got) != 1 || got[0].Code != health.AuthorityFails {
		t.Errorf("without the store: %q", health.Texts(got))
	}
}

// Without a node that answers, `tls show` says what the store knows of a rotation, and that it knows no more.
func TestRotationWithoutANode(t *testing.T) {
	dir := t.TempDir()
	configPath := filepath.Join(dir, "holdfast.yaml")
	text := "cluster: {name: main}\nnode: {data-dir: " + dir + "/data, name: n1}\ntls: {mode: auto}\n" +
		"snapshot: {store: " + dir + "/store}\n"
	if err := os.WriteFile(configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	show := func(format string) string {
		t.Helper()
		out, err := execute("tls", "show", "--config", configPath, "-o", format)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	if out := show("table"); !strings.Contains(out, "whether a rotation is open is not known") {
		t.Errorf("before the node has run: %s", out)
	}
	l, err := config.Load(configPath, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newEditions(l.Config, snapshot.NewDir(filepath.Join(dir, "store")), zap.NewNop())
	if _, err := a.Authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.advance(t.Context(), rotationView{}, rotationOrder{Begin: true, By: "root"}, false); err != nil {
		t.Fatal(err)
	}
	table := show("table")
	for _, part := range []string{"CA ROTATION introduced", "root asked for it", "not known here"} {
		if !strings.Contains(table, part) {
			t.Errorf("want %q in %s", part, table)
		}
	}
	var shown shownTLS
	err = json.Unmarshal([]byte(show("json")), &shown)
	if err != nil || shown.Rotation == nil || shown.Rotation.Phase != "introduced" || len(shown.Certificates) == 0 {
		t.Errorf("json: %v, %+v", err, shown)
	}
}

// An operator is told what is refused, from when, and whom that meets, before a step that cuts clients off.
func TestRotationSaysWhatItRefuses(t *testing.T) {
	s := newSite(t)
	a := s.node(t.TempDir())
	s.peers(a)
	now := time.Now()
	var issued []clientRecord
	ask := func(order rotationOrder, v rotationView) string {
		status := health.ClusterStatus{Nodes: []health.NodeStatus{{Reached: true}, {Node: "n2", State: "silent"}},
			Rotation: a.Rotation(v, time.Now())}
		return strings.Join(a.refuses(v, order, status, issued, now), "\n")
	}
	see := func(name string, by *x509.Certificate) {
		leaf := &x509.Certificate{Raw: []byte(name), Subject: pkix.Name{CommonName: name}, NotAfter: now.Add(time.Hour)}
		a.clients.See([]*x509.Certificate{leaf, by}, 0)
	}
	must := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("want %q in\n%s", part, text)
			}
		}
	}
	old := a.have.Clients.primary()
	see("kube", old)
	must(ask(rotationOrder{Now: true}, rotationView{}), "kube-apiserver does not re-read --etcd-cafile",
		"no new bundle to hand out yet", "kube 0s ago; other nodes tell of theirs only while", "not known of n2",
		"refuse the servers: from about ",
		old.NotAfter.Format(time.RFC3339))
	if text := ask(rotationOrder{Begin: true}, rotationView{}); text != "" {
		t.Errorf("a rotation that gives clients time: %s", text)
	}
	s.rotated(a)
	see("new", a.have.Clients.primary())
	given := func(name string, by *x509.Certificate, until time.Time) {
		c := health.IssuedClient{Name: name, Authority: pki.Fingerprint(by), NotAfter: until}
		issued = append(issued, clientRecord{IssuedClient: c})
	}
	given("cron", old, now.Add(time.Hour))
	given("renewed", a.have.Clients.primary(), now.Add(time.Hour))
	given("gone", old, now)
	text := ask(rotationOrder{DropOld: true}, rotationView{})
	must(text, "was issued (`holdfast tls client`) to cron", "kube 0s ago",
		"servers refuse clients' certificates of "+pki.Fingerprint(old))
	if strings.Contains(text, "new 0s ago") || !strings.HasSuffix(text, "to cron") {
		t.Errorf("a client with a new certificate is not met: %s", text)
	}
	if _, err := a.advance(t.Context(), rotationView{}, rotationOrder{Begin: true}, false); err != nil {
		t.Fatal(err)
	}
	both := pki.Stance{Trusts: []string{pki.Fingerprint(a.have.Peers.other())}}
	trusting := rotationView{Members: []memberStance{{Slot: "a", Known: true, Running: true, Stance: both}}}
	// All trust it: from now on.
	must(ask(rotationOrder{Now: true}, trusting), "restart it before "+now.UTC().Format(time.RFC3339))
}
