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

func (f *fixture) tag(t *testing.T, instance, key, value string) error {
	_, err := f.as(instance).CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{"vol-1"}, Tags: []types.Tag{{Key: &key, Value: &value}}})
	return err
}

// tags shows the tags of vol-1 as an instance reads them.
func (f *fixture) tags(t *testing.T, instance string) string {
	t.Helper()
	var all []string
	for _, tag := range f.describe(t, instance, "vol-1").Tags {
		all = append(all, *tag.Key+"="+*tag.Value)
	}
	return strings.Join(all, " ")
}

func tagsOverwrite(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.tag(t, "i-1", "claim", "one"))
	ok(t, f.tag(t, "i-2", "claim", "two"))
	ok(t, f.tag(t, "i-2", "Claim", ""))
	if got, want := f.tags(t, "i-1"), "Claim= claim=two"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err := f.as("i-1").CreateTags(t.Context(), &ec2.CreateTagsInput{
		Resources: []string{"vol-1", "vol-none"}, Tags: []types.Tag{{Key: aws.String("all"), Value: aws.String("or none")}}})
	wantCode(t, err, "InvalidVolume.NotFound", 400)
	if got := f.tags(t, "i-1"); strings.Contains(got, "all=") {
		t.Errorf("got %s, want nothing of a call that failed", got)
	}
}

func tagsDeleted(t *testing.T) {
	f := open(t, Options{})
	remove := func(value *string) {
		_, err := f.as("i-1").DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{"vol-1"}, Tags: []types.Tag{{Key: aws.String("claim"), Value: value}}})
		ok(t, err) // whether it deleted anything or not
	}
	ok(t, f.tag(t, "i-1", "claim", "one"))
	remove(aws.String("two"))
	remove(aws.String(""))
	if got := f.tags(t, "i-1"); got != "claim=one" {
		t.Errorf("got %q after another value was to be deleted, want claim=one", got)
	}
	remove(aws.String("one"))
	if got := f.tags(t, "i-1"); got != "" {
		t.Errorf("got %q after its value was to be deleted, want none", got)
	}
	ok(t, f.tag(t, "i-1", "claim", "one"))
	remove(nil)
	remove(nil)
	if got := f.tags(t, "i-1"); got != "" {
		t.Errorf("got %q after any value was to be deleted, want none", got)
	}
}

func tagLimits(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.tag(t, "i-1", strings.Repeat("k", 127), strings.Repeat("v", 256)))
	wantCode(t, f.tag(t, "i-1", strings.Repeat("k", 128), ""), "InvalidParameterValue", 400)
	wantCode(t, f.tag(t, "i-1", "k", strings.Repeat("v", 257)), "InvalidParameterValue", 400)
	wantCode(t, f.tag(t, "i-1", "aws:k", ""), "InvalidParameterValue", 400)
	for n := range 49 {
		ok(t, f.SetTag("vol-1", fmt.Sprint(n), ""))
	}
	wantCode(t, f.tag(t, "i-1", "one more", ""), "TagLimitExceeded", 400)
	ok(t, f.tag(t, "i-1", "7", "overwritten"))
}

func wanted(token string) *ec2.CreateVolumeInput {
	in := &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String("eu-test-1a"), Size: aws.Int32(4), VolumeType: types.VolumeTypeGp3, Iops: aws.Int32(3000), Throughput: aws.Int32(125),
		Encrypted: aws.Bool(true), KmsKeyId: aws.String("alias/etcd"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: aws.String("holdfast:member"), Value: aws.String("a")}}}},
	}
	if token != "" {
		in.ClientToken = &token
	}
	return in
}

func createOnce(t *testing.T) {
	f := open(t, Options{})
	var mu sync.Mutex
	ids := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			out, err := f.as("i-1").CreateVolume(t.Context(), wanted("once"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			ids[*out.VolumeId] = true
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Fatalf("got the volumes %v, want one", ids)
	}
	for id := range ids {
		f.until(t, id, "available")
		v := f.describe(t, "i-1", id)
		if *v.Size != 4 || v.VolumeType != types.VolumeTypeGp3 || *v.Iops != 3000 || *v.Throughput != 125 || !*v.Encrypted ||
			*v.KmsKeyId != "alias/etcd" || len(v.Tags) != 1 || *v.Tags[0].Key != "holdfast:member" || *v.AvailabilityZone != "eu-test-1a" {
			t.Errorf("got %+v", v)
		}
	}
	other := wanted("once")
	other.Size = aws.Int32(5)
	_, err := f.as("i-1").CreateVolume(t.Context(), other)
	wantCode(t, err, "IdempotentParameterMismatch", 400)
}

func createErrors(t *testing.T) {
	f := open(t, Options{})
	for want, edit := range map[string]func(*ec2.CreateVolumeInput){
		"MissingParameter":            func(in *ec2.CreateVolumeInput) { in.Size = nil },
		"InvalidZone.NotFound":        func(in *ec2.CreateVolumeInput) { in.AvailabilityZone = aws.String("mars-1a") },
		"InvalidParameterDependency":  func(in *ec2.CreateVolumeInput) { in.Encrypted = nil },
		"InvalidParameterCombination": func(in *ec2.CreateVolumeInput) { in.VolumeType = types.VolumeTypeGp2 },
		"InvalidParameterValue":       func(in *ec2.CreateVolumeInput) { in.TagSpecifications[0].ResourceType = types.ResourceTypeInstance },
	} {
		in := wanted("")
		edit(in)
		_, err := f.as("i-1").CreateVolume(t.Context(), in)
		wantCode(t, err, want, 400)
	}
}

func creatingFirst(t *testing.T) {
	f := open(t, Options{})
	ok(t, f.Inject(Fault{Kind: Slow, Action: "CreateVolume", Delay: time.Hour}))
	out, err := f.as("i-1").CreateVolume(t.Context(), wanted(""))
	if err != nil || out.State != types.VolumeStateCreating {
		t.Fatalf("got %+v and %v, want creating", out, err)
	}
	wantCode(t, f.attach(t, "i-1", *out.VolumeId, "/dev/sdf"), "IncorrectState", 400)
}
