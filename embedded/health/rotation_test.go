package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/plan"
)

// rotating is a rotation in a phase, two hours old.
func rotating(phase string) *RotationStatus {
	return &RotationStatus{Phase: phase, Authorities: []string{"clients", "peers"}, Old: []string{"x"},
		New: "y", Began: now.Add(-5 * time.Hour), Since: now.Add(-2 * time.Hour), Until: now.Add(1000 * time.Hour),
		Waits: "until slot b is heard of", Watched: now.Add(-3 * time.Hour)}
}

// Of several nodes, the one with the newest edition knows best, and of those the leader.
func TestRotationOfTheCluster(t *testing.T) {
	node := func(edition uint64, leads bool, waits string) NodeStatus {
		n := NodeStatus{Etcd: &EtcdStatus{Status: plan.Status{Leader: leads}}, TLS: &TLSStatus{Edition: edition}}
		if waits != "" {
			n.TLS.Rotation = &RotationStatus{Waits: waits}
		}
		return n
	}
	nodes := []NodeStatus{node(2, false, "x"), node(3, false, "y"), node(3, true, "z"), node(3, false, "y"), {}}
	if r := openRotation(nodes); r.Waits != "z" {
		t.Errorf("got %+v", r)
	}
	if r := openRotation([]NodeStatus{node(4, true, "x"), node(5, false, ""), {}}); r != nil {
		t.Errorf("one that does not know that it is over: %+v", r)
	}
	if r := openRotation([]NodeStatus{{}, {TLS: &TLSStatus{}}}); r != nil {
		t.Errorf("got %+v", r)
	}
	f := sound()
	f.node(1).TLS = &TLSStatus{Rotation: rotating("issuing")}
	if f.Status.Judge(nil); f.Status.Rotation == nil || f.Status.Rotation.Phase != "issuing" {
		t.Errorf("got %+v", f.Status.Rotation)
	}
	f.node(1).TLS = nil
	if f.Status.Judge(nil); f.Status.Rotation != nil {
		t.Errorf("after it was dropped: %+v", f.Status.Rotation)
	}
}

// Clients with old certificates are those that any member has seen, each once, and no more than fit into a status.
func TestOldClientsOfTheCluster(t *testing.T) {
	client := func(name string, ago time.Duration) ClientCertificate {
		return ClientCertificate{Name: name, Fingerprint: name, Last: now.Add(-ago)}
	}
	node := func(watched time.Duration, seen ...ClientCertificate) NodeStatus {
		r := &RotationStatus{Old: []string{"x"}, Watched: now.Add(-watched)}
		r.Add(seen...)
		return NodeStatus{TLS: &TLSStatus{Rotation: r}}
	}
	r := openRotation([]NodeStatus{node(time.Hour, client("kube", 30*time.Second), client("cron", 10*time.Minute)),
		node(9*time.Minute, client("kube", 10*time.Second))})
	if text := r.OldClientsText(now); !strings.HasSuffix(text, "(x) in 9m: kube 10s ago, cron 10m ago") {
		t.Errorf("got %q", text)
	}
	other := node(time.Hour, client("other", time.Second)) // with current certificates
	other.TLS.Rotation.Old = []string{"z"}
	text := openRotation([]NodeStatus{node(time.Hour), other}).OldClientsText(now)
	if !strings.Contains(text, "none has presented") {
		t.Errorf("got %q", text)
	}
	var many []ClientCertificate
	for i := range maxOldClients + 5 {
		many = append(many, client(fmt.Sprint(i), time.Duration(i)*time.Second))
	}
	r = openRotation([]NodeStatus{node(time.Hour, many...)})
	if len(r.OldClients) != maxOldClients || r.Others != 5 || r.OldClients[0].Name != "0" ||
		!strings.Contains(r.OldClientsText(now), "5 more") {
		t.Errorf("got %d and %d more, %+v", len(r.OldClients), r.Others, r.OldClients[0])
	}
}

// For one client, the certificate that expires last counts, whichever node knows it.
func TestIssuedClientsOfTheCluster(t *testing.T) {
	const day = 24 * time.Hour
	of := func(name string, left time.Duration) IssuedClient {
		return IssuedClient{Name: name, NotBefore: now.Add(left - 365*day), NotAfter: now.Add(left)}
	}
	f := sound()
	f.node(0).TLS = &TLSStatus{Issued: []IssuedClient{of("kube", 10*day), of("cron", 20*day), of("gone", -8*day),
		of("late", -6*day), of("far", 31*day), of("etl", 300*day)}}
	f.node(1).TLS = &TLSStatus{Issued: []IssuedClient{of("kube", 300*day), of("cron", 20*day), of("etl", 10*day)}}
	var got []string
	for _, f := range f.Judge([]string{"a", "b", "c"}) {
		got = append(got, fmt.Sprintf("%s %s %s", f.Code, f.Severity, f.Subject))
	}
	want := []string{"client-certificate-ends warning late", "client-certificate-ends warning cron"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a rotation waits for is reported as such. A warning takes more.
func TestRotationThatIsWell(t *testing.T) {
	client := func(ago time.Duration) func(*Facts, *RotationStatus) {
		return func(_ *Facts, r *RotationStatus) { r.Add(ClientCertificate{Name: "kube", Last: now.Add(-ago)}) }
	}
	for name, tt := range map[string]struct {
		phase  string
		change func(*Facts, *RotationStatus)
	}{
		"members have a moment": {"issuing", func(_ *Facts, r *RotationStatus) { r.Since = now.Add(-59 * time.Minute) }},
		"the hold is just over": {"introduced", func(_ *Facts, r *RotationStatus) { r.Hold = now.Add(-59 * time.Minute) }},
		"clients have half the time": {"introduced", func(_ *Facts, r *RotationStatus) {
			r.Hold = now.Add(2*time.Hour + time.Second)
		}},
		"clients have months": {"introduced", func(_ *Facts, r *RotationStatus) {
			r.Since, r.Hold = now.Add(-3000*time.Hour), now.Add(holdNotice+time.Hour)
		}},
		"paused":                         {"issuing", func(f *Facts, _ *RotationStatus) { f.Status.Paused = &plan.Pause{} }},
		"no client was seen":             {RotationRetiring, func(*Facts, *RotationStatus) {}},
		"one was seen before this phase": {RotationRetiring, client(2*time.Hour + time.Second)},
		"one was seen the day before": {RotationRetiring, func(_ *Facts, r *RotationStatus) {
			r.Since = now.Add(-1000 * time.Hour)
			r.Add(ClientCertificate{Name: "kube", Last: now.Add(-stillPresents)})
		}},
		"old ones are used until there are new ones": {"issuing", func(_ *Facts, r *RotationStatus) {
			r.Since = now
			r.Add(ClientCertificate{Name: "kube", Last: now})
		}},
	} {
		f, r := sound(), rotating(tt.phase)
		tt.change(f, r)
		f.Status.Rotation = r
		var got findings
		if (judged{ClusterStatus: &f.Status, now: now}).judgeRotation(&got); len(got) != 1 || got[0].Code != AuthorityRotation || got[0].Severity != Info {
			t.Errorf("%s: got %q", name, Texts(got))
		}
	}
}
