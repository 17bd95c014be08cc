package ec2test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// behaviours are those in which the stand-in is like EC2, each with the source that documents it.
var behaviours = []struct {
	name, source string
	run          func(*testing.T)
}{
	{"one of many attaches wins", "AttachVolume: VolumeInUse; EBS single-attach", oneWins},
	{"an attach is accepted, then attaching, then attached", "VolumeAttachmentState", attachIsSlow},
	{"a detach is accepted, then detaching, then available", "DetachVolume; VolumeAttachmentState", detachIsSlow},
	{"errors of AttachVolume", "EC2 API error codes", attachErrors},
	{"errors of DetachVolume", "EC2 API error codes", detachErrors},
	{"a Multi-Attach volume has several holders", "EBS Multi-Attach: io1 and io2, 16 instances", multiAttach},
	{"a managed attachment has no instance", "VolumeAttachment: instanceId null, associatedResource", managed},
	{"termination detaches, and stays visible", "Terminate EC2 instances: terminated instances remain visible", terminateDetaches},
	{"a stopped instance keeps its volumes", "Stop and start EC2 instances", stopKeeps},
	{"one unknown instance fails the call", "DescribeInstances; InvalidInstanceID.NotFound", unknownInstance},
	{"instances are described", "DescribeInstances: hibernationOptions, placement", instancesDescribed},
	{"pages, also empty ones", "Query API pagination; an empty page with a token", pages},
	{"filters", "DescribeVolumes: Filters; wildcards in Using_Filtering", filters},
	{"tags are overwritten without a condition", "CreateTags", tagsOverwrite},
	{"tags are deleted with their value or whatever it is", "DeleteTags: compare-and-delete", tagsDeleted},
	{"limits of tags", "Tag restrictions: 50 tags, key 127, value 256, aws: reserved", tagLimits},
	{"volumes are created once for a token", "CreateVolume; Ensuring idempotency; IdempotentParameterMismatch", createOnce},
	{"errors of CreateVolume", "CreateVolume", createErrors},
	{"a volume is creating, then available", "VolumeState; IncorrectState", creatingFirst},
	{"DryRun", "Common parameters: DryRunOperation and UnauthorizedOperation", dryRun},
	{"an action that is not there", "EC2 API error codes: InvalidAction", invalidAction},
	{"an instance reaches for its own attachments only", "ec2:SourceInstanceARN", ownOnly},
	{"stale reads", "Eventual consistency; kubernetes#77949, aws-ebs-csi-driver#2183", staleReads},
	{"reads that go back in time", "kubernetes#85675, kubernetes#77389", randomReads},
	{"a lost request", "no ClientToken in AttachVolume: yes, no, unknown", loseRequest},
	{"a lost response", "a retried AttachVolume that won is VolumeInUse", loseResponse},
	{"a late execution", "a timed-out request may be executed yet", lateExecution},
	{"throttling", "Request throttling: RequestLimitExceeded, 503", throttled},
	{"server errors", "EC2 API error codes: InternalError, Unavailable", serverErrors},
	{"outage", "static stability: no answer, or refused", outage},
	{"a key that is denied", "EBS encryption: the attach fails asynchronously", kmsFailure},
	{"an operator's forced detach", "DetachVolume: Force", forced},
}

func TestConformance(t *testing.T) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			t.Log("source:", b.source)
			b.run(t)
		})
	}
}

// fixture is a cloud with instances i-1 to i-3 in zone a, and volume vol-1 there.
type fixture struct {
	*Cloud
	server *Server
	http   *http.Client
}

func open(t *testing.T, o Options) *fixture {
	t.Helper()
	o.Log = t.Logf
	c := New(o)
	s, err := Listen(c, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{c, s, &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		f.http.CloseIdleConnections()
		// Close the cloud first: that ends hanging requests, which could still log.
		if err := c.Close(); err != nil {
			t.Errorf("close the cloud: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	for n := 1; n <= 3; n++ {
		must(t)(c.AddInstance(Instance{ID: fmt.Sprintf("i-%d", n), PrivateIP: fmt.Sprintf("127.1.0.%d", n)}))
	}
	must(t)(c.AddVolume(Volume{ID: "vol-1"}))
	return f
}

func must(t *testing.T) func(string, error) string {
	return func(s string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as returns the client of an instance. It never retries.
func (f *fixture) as(instance string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: "eu-test-1", BaseEndpoint: &f.server.URL, HTTPClient: f.http, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(AccessKey(instance), "secret", ""),
	})
}

// attach attaches a volume to an instance, as a request of that instance.
func (f *fixture) attach(t *testing.T, instance, volume, device string) error {
	_, err := f.as(instance).AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance, Device: &device})
	return err
}

func (f *fixture) detach(t *testing.T, instance, volume string) error {
	_, err := f.as(instance).DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &instance})
	return err
}

// describe returns a volume as an instance reads it.
func (f *fixture) describe(t *testing.T, instance, volume string) types.Volume {
	t.Helper()
	out, err := f.as(instance).DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{volume}})
	if err != nil || len(out.Volumes) != 1 {
		t.Fatalf("describe %s: got %v and %v", volume, out, err)
	}
	return out.Volumes[0]
}

// view formats the state of a volume and of its attachments, such as "in-use i-1:attached".
func view(v types.Volume) string {
	s := string(v.State)
	for _, a := range v.Attachments {
		s += " " + aws.ToString(a.InstanceId) + ":" + string(a.State)
	}
	return s
}

func (f *fixture) until(t *testing.T, volume, want string) {
	t.Helper()
	eventually(t, want, func() string { return view(f.describe(t, "observer", volume)) })
}

func eventually[T comparable](t *testing.T, want T, look func() T) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for got := look(); got != want; got = look() {
		if time.Now().After(end) {
			t.Fatalf("got %v, want %v", got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// code returns the code of an EC2 error, "none" for no error, or "no answer" if there was none.
func code(err error) string {
	var e smithy.APIError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &e):
		return e.ErrorCode()
	}
	return "no answer"
}

func wantCode(t *testing.T, err error, want string, statuses ...int) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
	var e *awshttp.ResponseError
	for _, status := range statuses {
		if !errors.As(err, &e) || e.HTTPStatusCode() != status {
			t.Errorf("got %v, want the HTTP status %d", err, status)
		}
	}
}

func ownOnly(t *testing.T) {
	f := open(t, Options{OwnOnly: true})
	ok(t, f.attach(t, "i-1", "vol-1", "/dev/sdf"))
	_, err := f.as("i-2").DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: aws.String("vol-1"), InstanceId: aws.String("i-1"), Force: aws.Bool(true)})
	wantCode(t, err, "UnauthorizedOperation", 403)
	if got := f.Counts()[len(f.Counts())-1]; got.Action != "DetachVolume" || got.Caller != "i-2" || !got.Force {
		t.Errorf("got %+v, want the forced call recorded", got)
	}
	ok(t, f.detach(t, "i-1", "vol-1"))
}

func invalidAction(t *testing.T) {
	f := open(t, Options{})
	_, err := f.as("i-1").DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantCode(t, err, "InvalidAction", 400)
	c := ec2.New(ec2.Options{Region: "eu-test-1", BaseEndpoint: &f.server.URL, HTTPClient: f.http, Retryer: aws.NopRetryer{}, Credentials: aws.AnonymousCredentials{}})
	_, err = c.DescribeVolumes(context.Background(), &ec2.DescribeVolumesInput{})
	wantCode(t, err, "AuthFailure", 401)
}
