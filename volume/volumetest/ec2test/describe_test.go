package ec2test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func unknownInstance(t *testing.T) {
	f := open(t, Options{})
	_, err := f.as("i-1").DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"i-1", "i-none"}})
	wantCode(t, err, "InvalidInstanceID.NotFound", 400)
}

func instancesDescribed(t *testing.T) {
	f := open(t, Options{})
	must(t)(f.AddInstance(Instance{ID: "i-h", Zone: "eu-test-1c", PrivateIP: "10.0.0.9", Hibernate: true, State: "stopped"}))
	out, err := f.as("i-1").DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"i-h"}})
	ok(t, err)
	i := out.Reservations[0].Instances[0]
	if *i.InstanceId != "i-h" || *i.Placement.AvailabilityZone != "eu-test-1c" || *i.PrivateIpAddress != "10.0.0.9" ||
		!*i.HibernationOptions.Configured || i.State.Name != types.InstanceStateNameStopped || *i.State.Code != 80 {
		t.Errorf("got %+v", i)
	}
}

func pages(t *testing.T) {
	f := open(t, Options{})
	for n := 2; n <= 23; n++ {
		must(t)(f.AddVolume(Volume{ID: fmt.Sprintf("vol-%d", n), Tags: map[string]string{"n": fmt.Sprint(n)}}))
	}
	list := func(in *ec2.DescribeVolumesInput) (ids []string, sizes []int) {
		p := ec2.NewDescribeVolumesPaginator(f.as("i-1"), in)
		for p.HasMorePages() {
			out, err := p.NextPage(t.Context())
			ok(t, err)
			sizes = append(sizes, len(out.Volumes))
			for _, v := range out.Volumes {
				ids = append(ids, *v.VolumeId)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids), sizes
	}
	ids, sizes := list(&ec2.DescribeVolumesInput{MaxResults: aws.Int32(5)})
	if len(ids) != 23 || !slices.Equal(sizes, []int{5, 5, 5, 5, 3}) {
		t.Errorf("got %d volumes in pages of %v, want 23 in pages of 5", len(ids), sizes)
	}
	ids, sizes = list(&ec2.DescribeVolumesInput{MaxResults: aws.Int32(5), Filters: []types.Filter{{Name: aws.String("tag:n"), Values: []string{"7"}}}})
	if !slices.Equal(ids, []string{"vol-7"}) || len(sizes) != 5 {
		t.Errorf("got %v in pages of %v, want vol-7 in five pages, four of them empty", ids, sizes)
	}
	for want, in := range map[string]*ec2.DescribeVolumesInput{
		"InvalidParameterCombination": {MaxResults: aws.Int32(5), VolumeIds: []string{"vol-1"}},
		"InvalidParameterValue":       {MaxResults: aws.Int32(4)},
		"InvalidNextToken":            {NextToken: aws.String("?")},
	} {
		_, err := f.as("i-1").DescribeVolumes(t.Context(), in)
		wantCode(t, err, want, 400)
	}
}

func filters(t *testing.T) {
	f := open(t, Options{})
	must(t)(f.AddVolume(Volume{ID: "vol-2", Zone: "eu-test-1b", Tags: map[string]string{"k8s.io/etcd/main": "a/a,b,c"}}))
	must(t)(f.AddVolume(Volume{ID: "vol-3", Tags: map[string]string{"k8s.io/etcd/main": "b/a,b,c", "empty": ""}}))
	ok(t, f.attach(t, "i-1", "vol-3", "/dev/sdf"))
	f.until(t, "vol-3", "in-use i-1:attached")
	for _, test := range []struct {
		filters string // name=value,value;name=value
		want    string
	}{
		{"tag:k8s.io/etcd/main=a/a,b,c", "vol-2"},
		{"tag:k8s.io/etcd/main=*", "vol-2 vol-3"},
		{"tag:k8s.io/etcd/main=?/a*", "vol-2 vol-3"},
		{"tag:k8s.io/etcd/main=A/A,B,C", ""},
		{"tag-key=k8s.io/etcd/main;attachment.status=attached", "vol-3"},
		{"tag:empty=", "vol-3"},
		{"attachment.status=busy|attached", "vol-3"},
	} {
		in := &ec2.DescribeVolumesInput{}
		for _, one := range strings.Split(test.filters, ";") {
			name, values, _ := strings.Cut(one, "=")
			in.Filters = append(in.Filters, types.Filter{Name: &name, Values: strings.Split(values, "|")})
		}
		out, err := f.as("i-1").DescribeVolumes(t.Context(), in)
		ok(t, err)
		var got []string
		for _, v := range out.Volumes {
			got = append(got, *v.VolumeId)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %v, want %s", test.filters, got, test.want)
		}
	}
	_, err := f.as("i-1").DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}})
	wantCode(t, err, "InvalidParameterValue", 400)
}
