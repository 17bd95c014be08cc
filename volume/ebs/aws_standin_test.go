package ebs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/volume"
	"holdfast/volume/ebs"
	"holdfast/volume/volumetest/ec2test"
)

// standin is a region with two instances, and the clients of both. Each has its identity and credentials from its
// metadata service.
type standin struct {
	*ec2test.Cloud
	a, b *ebs.EC2
}

func newStandin(t *testing.T, o ec2test.Options) standin {
	t.Helper()
	clearAWS(t)
	cloud := ec2test.New(o)
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Errorf("close the stand-in: %v", err)
		}
	})
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	client := func(instance string) *ebs.EC2 {
		if _, err := cloud.AddInstance(ec2test.Instance{ID: instance}); err != nil {
			t.Fatal(err)
		}
		metadata := httptest.NewServer(cloud.IMDS(instance))
		t.Cleanup(metadata.Close)
		e, err := ebs.NewEC2(t.Context(), ebs.Config{Endpoint: server.URL, MetadataEndpoint: metadata.URL}, prometheus.NewRegistry(), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	return standin{cloud, client("i-0a"), client("i-0b")}
}

func (s standin) volume(t *testing.T, v ec2test.Volume) string {
	t.Helper()
	id, err := s.AddVolume(v)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s standin) one(t *testing.T, id string) ebs.Volume {
	t.Helper()
	all, err := s.a.Volumes(t.Context(), ebs.Query{IDs: []string{id}})
	if err != nil || len(all) != 1 {
		t.Fatalf("Volumes(%s): got %v, %v, want one", id, all, err)
	}
	return all[0]
}

func wantMeaning(t *testing.T, what string, err error, code string, want ebs.Meaning) {
	t.Helper()
	var e *ebs.Error
	if !errors.As(err, &e) || e.Code != code || e.Meaning != want {
		t.Errorf("%s: got %v (%q), want %s, which means %q", what, err, ebs.MeaningOf(err), code, want)
	}
}

func TestStandinIdentity(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	got, err := s.b.Identity(t.Context())
	want := ebs.Self{Instance: "i-0b", Region: "eu-test-1", Zone: "eu-test-1a", Account: "123456789012"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestStandinPages(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	const n = 1200 // more than two pages
	for i := range n {
		tags := map[string]string{"other": "x"}
		if i%100 == 0 {
			tags = map[string]string{ebs.TagCluster: "main", ebs.TagMember: fmt.Sprint(i)}
		}
		s.volume(t, ec2test.Volume{Tags: tags})
	}
	got, err := s.a.Volumes(t.Context(), ebs.Query{Tags: map[string]string{ebs.TagCluster: "main", ebs.TagMember: ""}})
	if err != nil || len(got) != n/100 {
		t.Errorf("got %d volumes, %v, want %d", len(got), err, n/100)
	}
	if calls := s.Calls("DescribeVolumes", "i-0a"); calls != 3 {
		t.Errorf("got %d requests, want 3 pages", calls)
	}
}

func TestStandinTags(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	id := s.volume(t, ec2test.Volume{})
	if err := s.a.Tag(t.Context(), id, map[string]string{"k": "mine", "l": "x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.b.Untag(t.Context(), id, "k", "yours"); err != nil {
		t.Errorf("untag with another value: %v", err)
	}
	if got := s.one(t, id).Tags; got["k"] != "mine" || got["l"] != "x" {
		t.Errorf("got %v, want both tags still", got)
	}
	if err := s.a.Untag(t.Context(), id, "k", "mine"); err != nil {
		t.Fatal(err)
	}
	if got := s.one(t, id).Tags; len(got) != 1 {
		t.Errorf("got %v, want k removed", got)
	}
}

func TestStandinAttach(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	first, second := s.volume(t, ec2test.Volume{}), s.volume(t, ec2test.Volume{})
	far := s.volume(t, ec2test.Volume{Zone: "eu-test-1b"})
	ctx := t.Context()
	if err := s.a.Attach(ctx, first, "i-0a", "/dev/sdf"); err != nil {
		t.Fatal(err)
	}
	wantMeaning(t, "another instance", s.b.Attach(ctx, first, "i-0b", "/dev/sdf"), "VolumeInUse", ebs.InUse)
	wantMeaning(t, "once more", s.a.Attach(ctx, first, "i-0a", "/dev/sdg"), "VolumeInUse", ebs.InUse)
	wantMeaning(t, "the same name", s.a.Attach(ctx, second, "i-0a", "/dev/sdf"), "InvalidParameterValue", ebs.NameTaken)
	wantMeaning(t, "another zone", s.a.Attach(ctx, far, "i-0a", "/dev/sdg"), "InvalidVolume.ZoneMismatch", ebs.Misplaced)
	wantMeaning(t, "no such volume", s.a.Attach(ctx, "vol-0", "i-0a", "/dev/sdg"), "InvalidVolume.NotFound", ebs.NotFound)
	wantMeaning(t, "not attached", s.b.Detach(ctx, first, "i-0b"), "InvalidAttachment.NotFound", ebs.NotFound)
	wantMeaning(t, "attached to nothing", s.b.Detach(ctx, second, "i-0b"), "IncorrectState", ebs.NotNow)

	v := s.one(t, first)
	if len(v.Attachments) != 1 || v.Attachments[0].Instance != "i-0a" || v.Attachments[0].Device != "/dev/sdf" || v.State != ebs.VolumeInUse {
		t.Errorf("got %+v, want it attached to i-0a", v)
	}
	if err := s.a.Detach(ctx, first, "i-0a"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); s.one(t, first).State != ebs.VolumeAvailable; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want it available", s.one(t, first))
		}
	}
	if slices.ContainsFunc(s.Counts(), func(n ec2test.Count) bool { return n.Force }) {
		t.Error("a detach was forced")
	}
}

func TestStandinManagedAttachment(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	id := s.volume(t, ec2test.Volume{})
	if err := s.AttachManaged(id); err != nil {
		t.Fatal(err)
	}
	if v := s.one(t, id); len(v.Attachments) != 1 || v.Attachments[0].Instance != "" || v.Attachments[0].State == ebs.Detached {
		t.Errorf("got %+v, want an attachment without an instance", v)
	}
}

// A request without an answer is uncertain, executed or not, and was sent once.
func TestStandinLostChanges(t *testing.T) {
	for kind, executed := range map[ec2test.Kind]bool{ec2test.LoseRequest: false, ec2test.LoseResponse: true} {
		t.Run(string(kind), func(t *testing.T) {
			s := newStandin(t, ec2test.Options{})
			id := s.volume(t, ec2test.Volume{})
			s.one(t, id) // so that a connection is kept open
			if err := s.Inject(ec2test.Fault{Action: "AttachVolume", Kind: kind}); err != nil {
				t.Fatal(err)
			}
			wantMeaning(t, "attach", s.a.Attach(t.Context(), id, "i-0a", "/dev/sdf"), "", ebs.Uncertain)
			if n := s.Calls("AttachVolume", ""); n != 1 {
				t.Errorf("got %d requests, want 1", n)
			}
			if got := len(s.one(t, id).Attachments) == 1; got != executed {
				t.Errorf("attached: got %v, want %v", got, executed)
			}
		})
	}
}

func TestStandinThrottled(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	id := s.volume(t, ec2test.Volume{})
	if err := s.Inject(ec2test.Fault{Action: "AttachVolume", Kind: ec2test.Throttle, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.a.Attach(t.Context(), id, "i-0a", "/dev/sdf"); err != nil || s.Calls("AttachVolume", "i-0a") != 2 {
		t.Errorf("got %v after %d requests, want it attached by the second", err, s.Calls("AttachVolume", "i-0a"))
	}
}

func TestStandinInstances(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	if err := s.SetInstanceState("i-0b", ebs.InstanceStopped); err != nil {
		t.Fatal(err)
	}
	got, err := s.a.Instances(t.Context(), []string{"i-0a", "i-0never", "i-0b"})
	want := []ebs.Instance{{ID: "i-0a", State: ebs.InstanceRunning}, {ID: "i-0b", State: ebs.InstanceStopped}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestStandinCreate(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	n := ebs.NewVolume{Zone: "eu-test-1a", SizeGiB: 3, Type: "gp3", Encrypted: true, Token: "token", Tags: map[string]string{ebs.TagMember: "a"}}
	id, err := s.a.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.one(t, id); v.Size != 3 || v.Type != "gp3" || !v.Encrypted || v.Tags[ebs.TagMember] != "a" || v.State != ebs.VolumeAvailable {
		t.Errorf("got %+v", v)
	}
	if again, err := s.a.Create(t.Context(), n); again != id || err != nil {
		t.Errorf("the same token again: got %s, %v, want %s", again, err, id)
	}
	n.SizeGiB = 4
	_, err = s.a.Create(t.Context(), n)
	wantMeaning(t, "the token for another volume", err, "IdempotentParameterMismatch", ebs.Invalid)
}

func TestStandinPermissions(t *testing.T) {
	s := newStandin(t, ec2test.Options{})
	id := s.volume(t, ec2test.Volume{})
	if err := s.Inject(ec2test.Fault{Action: "CreateTags", Kind: ec2test.Deny}); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.a.Permissions(t.Context(), id, "i-0a") {
		if want := p.Action != "ec2:CreateTags"; !p.Known || p.Allowed != want {
			t.Errorf("got %+v, want allowed: %v", p, want)
		}
	}
	if v := s.one(t, id); len(v.Attachments) != 0 || len(v.Tags) != 0 || len(s.State().Volumes) != 1 {
		t.Errorf("got %+v, want nothing changed by looking", v)
	}
}

// A role that could take volumes away is detected, without taking any away.
func TestDoctorTriesWhatARoleMustNotDo(t *testing.T) {
	for name, test := range map[string]struct {
		own  bool              // OwnOnly
		tags map[string]string // OwnTags
		want []string
	}{
		"the policy of ours": {true, map[string]string{"holdfast:cluster": "main"}, []string{
			"+reach: the role cannot detach VOL-B, another node's, from i-0b", "+reach: the role cannot detach VOL-X, not this cluster's, from i-0b"}},
		"any volume at its own instance": {true, nil, []string{
			"+reach: the role cannot detach VOL-B, another node's, from i-0b", "+reach: the role cannot detach VOL-X, not this cluster's, from i-0b"}},
		"its volumes at any instance": {false, map[string]string{"holdfast:cluster": "main"}, []string{
			"!reach: the role may detach VOL-B, another node's, from i-0b", "+reach: the role cannot detach VOL-X, not this cluster's, from i-0b"}},
		"everything": {false, nil, []string{
			"!reach: the role may detach VOL-B, another node's, from i-0b", "!reach: the role may detach VOL-X, not this cluster's, from i-0b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStandin(t, ec2test.Options{OwnOnly: test.own, OwnTags: test.tags})
			attached := func(device, cluster string) string {
				id := s.volume(t, ec2test.Volume{Tags: map[string]string{"holdfast:cluster": "main", "holdfast:member": "b"}})
				if err := s.b.Attach(t.Context(), id, "i-0b", device); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(10 * time.Second); s.one(t, id).Attachments[0].State != ebs.Attached; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("got %+v, want it attached", s.one(t, id))
					}
				}
				if err := s.SetTag(id, "holdfast:cluster", cluster); err != nil {
					t.Fatal(err)
				}
				return id
			}
			main, other := attached("/dev/sdf", "main"), attached("/dev/sdg", "events")
			before := fmt.Sprint(s.State().Volumes[main], s.State().Volumes[other])
			var said []string
			cfg := ebs.Default()
			cfg.DeviceRoot = t.TempDir()
			doctor := ebs.Doctor{
				Config: cfg, Cluster: "main", Slots: []string{"b"}, Cloud: s.a,
				Volumes: func(context.Context) ([]volume.Info, error) {
					return []volume.Info{{Slot: "b", Volume: main, Instance: "i-0b", Encrypted: true}}, nil
				},
				Tell: func(j ebs.Judgement, text string) {
					said = append(said, map[ebs.Judgement]string{ebs.Well: "+", ebs.Doubtful: "!", ebs.Missing: "-"}[j]+text)
				},
			}
			doctor.Examine(t.Context())
			for _, want := range test.want {
				want = strings.NewReplacer("VOL-B", main, "VOL-X", other).Replace(want)
				if !slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("it does not say %q:\n%s", want, strings.Join(said, "\n"))
				}
			}
			if after := fmt.Sprint(s.State().Volumes[main], s.State().Volumes[other]); after != before {
				t.Errorf("something was changed: %s, before: %s", after, before)
			}
		})
	}
}
