package ec2test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func dryRun(t *testing.T) {
	f := open(t, Options{})
	c, ctx, yes, volume, instance := f.as("i-1"), t.Context(), aws.Bool(true), aws.String("vol-1"), aws.String("i-1")
	tags := []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
	create := wanted("")
	create.DryRun = yes
	calls := map[string]func() error{
		"DescribeVolumes":   func() error { _, err := c.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{DryRun: yes}); return err },
		"DescribeInstances": func() error { _, err := c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: yes}); return err },
		"AttachVolume": func() error {
			_, err := c.AttachVolume(ctx, &ec2.AttachVolumeInput{DryRun: yes, VolumeId: volume, InstanceId: instance, Device: aws.String("/dev/sdf")})
			return err
		},
		"DetachVolume": func() error {
			_, err := c.DetachVolume(ctx, &ec2.DetachVolumeInput{DryRun: yes, VolumeId: volume})
			return err
		},
		"CreateTags": func() error {
			_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{DryRun: yes, Resources: []string{"vol-1"}, Tags: tags})
			return err
		},
		"DeleteTags": func() error {
			_, err := c.DeleteTags(ctx, &ec2.DeleteTagsInput{DryRun: yes, Resources: []string{"vol-1"}, Tags: tags})
			return err
		},
		"CreateVolume": func() error { _, err := c.CreateVolume(ctx, create); return err },
	}
	if len(calls) != len(actions) {
		t.Errorf("got %d calls, want one for each of the %d actions", len(calls), len(actions))
	}
	for name, call := range calls {
		wantCode(t, call(), "DryRunOperation", 412)
		ok(t, f.Inject(Fault{Action: name, Caller: "i-1", Kind: Deny}))
		wantCode(t, call(), "UnauthorizedOperation", 403)
		f.Clear()
		ok(t, f.Inject(Fault{Action: name, Caller: "i-2", Kind: Deny}))
		wantCode(t, call(), "DryRunOperation", 412)
	}
	if s := f.State(); len(s.Volumes) != 1 || len(s.Volumes["vol-1"].Tags)+len(s.Volumes["vol-1"].Attachments) != 0 {
		t.Errorf("got %+v, want nothing changed", s.Volumes)
	}
}

func staleReads(t *testing.T) {
	f := open(t, Options{})
	for n := range 5 {
		ok(t, f.tag(t, "i-1", "n", fmt.Sprint(n)))
	}
	ok(t, f.Inject(Fault{Kind: Stale, Caller: "i-1", Changes: 2}))
	if got := f.tags(t, "i-1"); got != "n=2" {
		t.Errorf("two changes behind: got %s, want n=2", got)
	}
	if got := f.tags(t, "i-2"); got != "n=4" {
		t.Errorf("another reader: got %s, want the truth, n=4", got)
	}
	f.Clear()
	ok(t, f.Inject(Fault{Kind: Stale, Action: "DescribeVolumes"})) // from now on, reads see the present state
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	ok(t, f.SetInstanceState("i-2", "stopped"))
	if got := view(f.describe(t, "i-1", "vol-1")) + " " + f.states(t, "i-2"); got != "available stopped" {
		t.Errorf("got %s, want volumes as they were and instances as they are", got)
	}
	wantCode(t, f.attach(t, "i-3", "vol-1", "/dev/sdf"), "VolumeInUse") // a change sees the current state
	f.Clear()
	ok(t, f.Inject(Fault{Kind: Stale, Age: time.Hour, Times: 1}))
	_, err := f.as("i-1").DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{"vol-1"}})
	wantCode(t, err, "InvalidVolume.NotFound") // an hour ago there was nothing
	if got := f.tags(t, "i-1"); got != "n=4" {
		t.Errorf("got %s after the one stale read, want n=4", got)
	}
}

func randomReads(t *testing.T) {
	f := open(t, Options{})
	for n := range 4 {
		ok(t, f.tag(t, "i-1", "n", fmt.Sprint(n)))
	}
	ok(t, f.Inject(Fault{Kind: Random, Changes: 3}))
	seen, back := map[string]bool{}, false
	last := ""
	for range 100 {
		got := f.tags(t, "i-1")
		back = back || got < last
		seen[got], last = true, got
	}
	if !back || len(seen) != 3 || seen["n=0"] {
		t.Errorf("got %v, back in time: %v; want the last three states in any order", seen, back)
	}
}

func loseRequest(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: LoseRequest, Action: "AttachVolume", Caller: "i-1", Times: 2}))
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "no answer")
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "no answer")
	if v, _ := f.Volume("vol-1"); len(v.Attachments) != 0 {
		t.Errorf("got %+v, want nothing executed", v)
	}
	if got := f.Calls("AttachVolume", "i-1"); got != 2 {
		t.Errorf("got %d calls, want 2: nothing repeats them behind our back", got)
	}
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
}

func loseResponse(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: LoseResponse, Action: "AttachVolume", Volume: "vol-1", Times: 1}))
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "no answer")
	f.until(t, "vol-1", "in-use i-1:attached")
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "VolumeInUse") // by this instance itself
	ok(t, f.Inject(Fault{Kind: LoseResponse, Action: "CreateTags", Times: 1}))
	wantCode(t, f.tag(t, "i-1", "k", "v"), "no answer")
	if got := f.tags(t, "i-1"); got != "k=v" {
		t.Errorf("got %s, want k=v", got)
	}
}

func lateExecution(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: Late, Action: "AttachVolume", Delay: 50 * time.Millisecond, Times: 1}))
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "no answer")
	if got := view(f.describe(t, "i-1", "vol-1")); got != "available" {
		t.Errorf("got %s, want nothing executed yet", got)
	}
	f.until(t, "vol-1", "in-use i-1:attached")
	// A late detach of an earlier attachment ends the next one. The delay is long enough for a slow machine.
	ok(t, f.Inject(Fault{Kind: Late, Action: "DetachVolume", Delay: 3 * time.Second, Times: 1}))
	wantCode(t, f.detach(t, "i-1", "vol-1"), "no answer")
	ok(t, f.detach(t, "i-1", "vol-1"))
	f.until(t, "vol-1", "available")
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdg"))
	f.until(t, "vol-1", "available")
}

func throttled(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: Throttle, Times: 1}))
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "RequestLimitExceeded", 503)
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
}

func serverErrors(t *testing.T) {
	f := open(t, Options{})
	for code, status := range map[string]int{"InternalError": 500, "Unavailable": 503, "ConcurrentTagAccess": 400} {
		ok(t, f.Inject(Fault{Kind: Fail, Code: code, Times: 1}))
		wantCode(t, f.tag(t, "i-1", "k", "v"), code, status)
	}
	if err := f.Inject(Fault{Kind: "flood"}); err == nil {
		t.Error("got no error of a fault that is not known")
	}
}

func outage(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: LoseRequest}))
	wantCode(t, f.tag(t, "i-1", "k", "v"), "no answer")
	f.Clear()
	ok(t, f.tag(t, "i-1", "k", "v"))
	ok(t, f.server.Close())
	wantCode(t, f.tag(t, "i-1", "k", "w"), "no answer")
	again, err := Listen(f.Cloud, f.server.URL[len("http://"):])
	ok(t, err)
	t.Cleanup(func() { _ = again.Close() })
	if got := f.tags(t, "i-1"); got != "k=v" {
		t.Errorf("got %s after the outage, want k=v", got)
	}
}

func kmsFailure(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: KMSFailure, Caller: "i-1", Times: 1}))
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "available")
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "in-use i-1:attached")
}

func forced(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "in-use i-1:attached")
	ok(t, f.ForceDetach("vol-1"))
	if got := view(f.describe(t, "i-1", "vol-1")); got != "available" {
		t.Errorf("got %s, want available", got)
	}
	if got := f.Intervals(); len(got) != 1 || !got[0].Forced || got[0].To.IsZero() {
		t.Errorf("got %+v, want one that ended by force", got)
	}
}
