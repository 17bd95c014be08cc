package ec2test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func oneWins(t *testing.T) {
	f := open(t, Options{})
	const nodes, rounds = 20, 10
	for n := 4; n <= nodes; n++ {
		must(t)(f.AddInstance(Instance{ID: fmt.Sprintf("i-%d", n)}))
	}
	for round := range rounds {
		volume := must(t)(f.AddVolume(Volume{}))
		var mu sync.Mutex
		got := map[string]int{}
		winner := ""
		var all sync.WaitGroup
		for n := 1; n <= nodes; n++ {
			all.Go(func() {
				instance := fmt.Sprintf("i-%d", n)
				err := f.attach(t, instance, volume, fmt.Sprintf("/dev/sd%c", 'f'+round))
				mu.Lock()
				defer mu.Unlock()
				got[code(err)]++
				if err == nil {
					winner = instance
				}
			})
		}
		all.Wait()
		if got["none"] != 1 || got["VolumeInUse"] != nodes-1 {
			t.Errorf("round %d: got %v, want one winner and %d times VolumeInUse", round, got, nodes-1)
		}
		f.until(t, volume, "in-use "+winner+":attached")
		ok(t, f.detach(t, winner, volume))
		f.until(t, volume, "available")
	}
	if got := Overlaps(f.Intervals()); len(got) != 0 || len(f.Intervals()) != rounds {
		t.Errorf("got %d intervals and the overlaps %v, want %d and none", len(f.Intervals()), got, rounds)
	}
	if got := f.Calls("AttachVolume", "i-7"); got != rounds {
		t.Errorf("got %d calls of i-7, want %d", got, rounds)
	}
}

func attachIsSlow(t *testing.T) {
	f := open(t, Options{AttachDelay: time.Hour})
	out, err := f.as("i-1").AttachVolume(t.Context(), &ec2.AttachVolumeInput{
		VolumeId: aws.String("vol-1"), InstanceId: aws.String("i-1"), Device: aws.String("/dev/sdf")})
	if err != nil || out.State != types.VolumeAttachmentStateAttaching || *out.Device != "/dev/sdf" {
		t.Fatalf("got %+v and %v, want attaching", out, err)
	}
	if got := view(f.describe(t, "i-1", "vol-1")); got != "in-use i-1:attaching" {
		t.Errorf("got %s, want it attaching", got)
	}
	fast := open(t, Options{AttachDelay: time.Millisecond})
	ok(t, fast.attach(t, "i-1", "vol-1", "/dev/sdf"))
	fast.until(t, "vol-1", "in-use i-1:attached")
}

func detachIsSlow(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: Slow, Action: "DetachVolume", Delay: time.Hour, Times: 1}))
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "in-use i-1:attached")
	ok(t, f.detach(t, "i-1", "vol-1"))
	if got := view(f.describe(t, "i-1", "vol-1")); got != "in-use i-1:detaching" {
		t.Errorf("got %s, want it detaching", got)
	}
	wantCode(t, f.attach(t, "i-2", "vol-1", "/dev/sdf"), "VolumeInUse")
	fast := open(t, Options{DetachDelay: time.Millisecond})
	ok(t, fast.attach(t, "i-1", "vol-1", "/dev/sdf"))
	ok(t, fast.detach(t, "i-1", "vol-1"))
	fast.until(t, "vol-1", "available")
	ok(t, fast.attach(t, "i-2", "vol-1", "/dev/sdf"))
}

func attachErrors(t *testing.T) {
	f := open(t, Options{})
	must(t)(f.AddInstance(Instance{ID: "i-full", MaxVolumes: 1}))
	must(t)(f.AddInstance(Instance{ID: "i-pending", State: "pending"}))
	must(t)(f.AddVolume(Volume{ID: "vol-2"}))
	must(t)(f.AddVolume(Volume{ID: "vol-3"}))
	must(t)(f.AddVolume(Volume{ID: "vol-far", Zone: "eu-test-1b"}))
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	ok(t, f.attach(t, "i-full", "vol-2", "/dev/sdf"))
	for _, test := range []struct{ instance, volume, device, want string }{
		{"i-1", "vol-none", "/dev/sdg", "InvalidVolume.NotFound"},
		{"i-none", "vol-3", "/dev/sdg", "InvalidInstanceID.NotFound"},
		{"i-1", "vol-far", "/dev/sdg", "InvalidVolume.ZoneMismatch"},
		{"i-2", "vol-1", "/dev/sdf", "VolumeInUse"},
		{"i-1", "vol-1", "/dev/sdg", "VolumeInUse"}, // a repeated call that had won
		{"i-pending", "vol-3", "/dev/sdf", "IncorrectState"},
		{"i-full", "vol-3", "/dev/sdg", "AttachmentLimitExceeded"},
		{"i-1", "vol-3", "/dev/sdf", "InvalidParameterValue"},
		{"i-1", "vol-3", "/dev/nvme1n1", "InvalidParameterValue"},
	} {
		wantCode(t, f.attach(t, test.instance, test.volume, test.device), test.want, 400)
	}
	want := "Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use"
	if err := f.attach(t, "i-1", "vol-3", "/dev/sdf"); !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	ok(t, f.StopInstance("i-2"))
	ok(t, f.attach(t, "i-2", "vol-3", "/dev/sdf")) // "to a running or stopped instance"
}

func detachErrors(t *testing.T) {
	f := open(t, Options{})
	wantCode(t, f.detach(t, "i-1", "vol-1"), "IncorrectState", 400)
	wantCode(t, f.detach(t, "i-1", "vol-none"), "InvalidVolume.NotFound", 400)
	wantCode(t, f.detach(t, "i-none", "vol-1"), "InvalidInstanceID.NotFound", 400)
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	wantCode(t, f.detach(t, "i-2", "vol-1"), "InvalidAttachment.NotFound", 400)
}

func multiAttach(t *testing.T) {
	f := open(t, Options{})
	must(t)(f.AddVolume(Volume{ID: "vol-m", Type: "io2", IOPS: 100, MultiAttach: true}))
	ok(t, f.attach(t, "i-1", "vol-m", "/dev/sdf"))
	ok(t, f.attach(t, "i-2", "vol-m", "/dev/sdf"))
	wantCode(t, f.attach(t, "i-2", "vol-m", "/dev/sdg"), "VolumeInUse")
	f.until(t, "vol-m", "in-use i-1:attached i-2:attached")
	if v := f.describe(t, "i-1", "vol-m"); !*v.MultiAttachEnabled || len(Overlaps(f.Intervals())) != 1 {
		t.Errorf("got Multi-Attach %v and overlaps %v, want true and one", *v.MultiAttachEnabled, Overlaps(f.Intervals()))
	}
	ok(t, f.detach(t, "i-1", "vol-m"))
	f.until(t, "vol-m", "in-use i-2:attached")
}

func managed(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.AttachManaged("vol-1"))
	v := f.describe(t, "i-1", "vol-1")
	if len(v.Attachments) != 1 || v.Attachments[0].InstanceId != nil || v.State != types.VolumeStateInUse {
		t.Errorf("got %s, want an attachment without an instance", view(v))
	}
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "VolumeInUse")
}

func terminateDetaches(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "in-use i-1:attached")
	ok(t, f.TerminateInstance("i-1"))
	if got := view(f.describe(t, "i-2", "vol-1")); got != "available" {
		t.Errorf("got %s, want available", got)
	}
	if got := f.states(t, "i-1"); got != "terminated" {
		t.Errorf("got %s, want terminated", got)
	}
	wantCode(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"), "IncorrectState")
}

// states returns the states of instances, in the order of their IDs.
func (f *fixture) states(t *testing.T, ids ...string) string {
	t.Helper()
	out, err := f.as("observer").DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids})
	ok(t, err)
	var all []string
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			all = append(all, string(i.State.Name))
		}
	}
	return strings.Join(all, " ")
}

func stopKeeps(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	f.until(t, "vol-1", "in-use i-1:attached")
	ok(t, f.StopInstance("i-1"))
	if got := view(f.describe(t, "i-2", "vol-1")) + " " + f.states(t, "i-1"); got != "in-use i-1:attached stopped" {
		t.Errorf("got %s, want it attached and stopped", got)
	}
	ok(t, f.StartInstance("i-1"))
	if got := f.states(t, "i-1"); got != "running" {
		t.Errorf("got %s, want running", got)
	}
}
