package ebs

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The operations, as AWS and the metric label operation name them.
const (
	opVolumes   = "DescribeVolumes"
	opInstances = "DescribeInstances"
	opAttach    = "AttachVolume"
	opDetach    = "DetachVolume"
	opTag       = "CreateTags"
	opUntag     = "DeleteTags"
	opCreate    = "CreateVolume"
)

const (
	throttleTries = 4                      // how often a throttled change is sent again
	throttlePause = 500 * time.Millisecond // mean pause before the first repetition; it doubles
)

// throttleBackoff is half fixed and half random, so that nodes that were throttled together do not come back together.
func throttleBackoff(try int) time.Duration {
	d := throttlePause << try
	return d/2 + rand.N(d)
}

var _ Cloud = (*EC2)(nil)

// Volumes implements [Cloud]. If EC2 does not know one of the volume IDs, the whole call fails with the meaning
// NotFound.
func (e *EC2) Volumes(ctx context.Context, q Query) ([]Volume, error) {
	in := &ec2.DescribeVolumesInput{VolumeIds: q.IDs}
	if len(q.IDs) == 0 {
		if len(q.Tags) == 0 {
			return nil, senseless(opVolumes, "the query names neither volumes nor tags, and would select everybody's")
		}
		// Without MaxResults EC2 puts everything on one page, and may take too long. With IDs it is not allowed.
		in.MaxResults = aws.Int32(pageSize)
		in.Filters = filters(q.Tags)
	}
	found := map[string]Volume{} // a volume may appear on two pages: the later one is not older
	for {
		out, err := ask(ctx, e, opVolumes, e.describeVolumes, in)
		if err != nil {
			return nil, err
		}
		for _, v := range out.Volumes {
			if v := fromSDK(v); selects(q, v) {
				found[v.ID] = v
			}
		}
		// A page may be empty without being the last: EC2 reads a number of volumes, and then filters.
		more, err := turnPage(opVolumes, &in.NextToken, out.NextToken)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	volumes := make([]Volume, 0, len(found))
	for _, id := range sortedKeys(found) {
		volumes = append(volumes, found[id])
	}
	return volumes, nil
}

// turnPage moves to the next page, if there is one.
func turnPage(op string, at **string, next *string) (more bool, err error) {
	switch {
	case aws.ToString(next) == "":
		return false, nil
	case aws.ToString(next) == aws.ToString(*at):
		return false, &Error{Op: op, Meaning: Uncertain, Err: errors.New("the page refers to itself as the next one")}
	}
	*at = next
	return true, nil
}

// filters returns EC2's filters for tags. AWS does not document whether two filters of one name both count, so only one
// asks for a tag of any value; selects does the rest.
func filters(tags map[string]string) []types.Filter {
	var fs []types.Filter
	any := false
	for _, key := range sortedKeys(tags) {
		switch value := tags[key]; {
		case value != "":
			fs = append(fs, types.Filter{Name: aws.String("tag:" + key), Values: []string{literal.Replace(value)}})
		case !any:
			any = true
			fs = append(fs, types.Filter{Name: aws.String("tag-key"), Values: []string{literal.Replace(key)}})
		}
	}
	return fs
}

// literal escapes *, ? and \, which have a meaning in the value of a filter ("Filtering" in the EC2 guide).
var literal = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `\`, `\\`)

// selects reports whether a query selects a volume. An endpoint may implement filters too loosely; such an answer must
// never be taken for a volume of the cluster.
func selects(q Query, v Volume) bool {
	if len(q.IDs) > 0 {
		return slices.Contains(q.IDs, v.ID)
	}
	for key, want := range q.Tags {
		if got, ok := v.Tags[key]; !ok || want != "" && got != want {
			return false
		}
	}
	return true
}

func fromSDK(v types.Volume) Volume {
	out := Volume{
		ID: aws.ToString(v.VolumeId), Zone: aws.ToString(v.AvailabilityZone), State: string(v.State),
		Type: string(v.VolumeType),
		Size: int64(aws.ToInt32(v.Size)), Encrypted: aws.ToBool(v.Encrypted), MultiAttach: aws.ToBool(v.MultiAttachEnabled),
		Tags: make(map[string]string, len(v.Tags)),
	}
	for _, t := range v.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	for _, a := range v.Attachments {
		out.Attachments = append(out.Attachments, Attachment{
			Instance: aws.ToString(a.InstanceId), Device: aws.ToString(a.Device), State: string(a.State),
			DeleteOnTermination: aws.ToBool(a.DeleteOnTermination),
		})
	}
	return out
}

// Instances implements [Cloud]. EC2 fails the whole call if it does not know one instance; then each is asked for
// separately. A filter would just leave the unknown ones out. But a request by ID only needs the zones of those
// instances to work.
func (e *EC2) Instances(ctx context.Context, ids []string) ([]Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := e.instances(ctx, ids)
	if MeaningOf(err) != NotFound {
		return all, err
	}
	all = nil
	for _, id := range ids {
		one, err := e.instances(ctx, []string{id})
		if err != nil && MeaningOf(err) != NotFound {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// privateAddress returns the address of the first network interface.
func privateAddress(i types.Instance) netip.Addr {
	at, err := netip.ParseAddr(aws.ToString(i.PrivateIpAddress))
	if err != nil {
		at, _ = netip.ParseAddr(aws.ToString(i.Ipv6Address))
	}
	return at
}

func (e *EC2) instances(ctx context.Context, ids []string) ([]Instance, error) {
	in := &ec2.DescribeInstancesInput{InstanceIds: ids}
	var all []Instance
	for {
		out, err := ask(ctx, e, opInstances, e.describeInstances, in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				one := Instance{ID: aws.ToString(i.InstanceId), Address: privateAddress(i)}
				if i.State != nil {
					one.State = string(i.State.Name)
				}
				if i.HibernationOptions != nil {
					one.Hibernate = aws.ToBool(i.HibernationOptions.Configured)
				}
				if slices.Contains(ids, one.ID) {
					all = append(all, one)
				}
			}
		}
		more, err := turnPage(opInstances, &in.NextToken, out.NextToken)
		if err != nil || !more {
			return all, err
		}
	}
}

// Attach implements [Cloud].
func (e *EC2) Attach(ctx context.Context, volume, instance, device string) error {
	return change(ctx, e, opAttach, e.attachVolume, &ec2.AttachVolumeInput{
		VolumeId: &volume, InstanceId: &instance, Device: &device,
	})
}

// Detach implements [Cloud]. The instance is always named: otherwise a late request would detach the volume from any
// instance that has it by then.
func (e *EC2) Detach(ctx context.Context, volume, instance string) error {
	if instance == "" {
		return senseless(opDetach, "no instance is named to detach "+volume+" from")
	}
	return change(ctx, e, opDetach, e.detachVolume,
		&ec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &instance})
}

// Tag implements [Cloud].
func (e *EC2) Tag(ctx context.Context, volume string, tags map[string]string) error {
	return change(ctx, e, opTag, e.createTags,
		&ec2.CreateTagsInput{Resources: []string{volume}, Tags: toSDK(tags)})
}

// Untag implements [Cloud].
func (e *EC2) Untag(ctx context.Context, volume, key, value string) error {
	return change(ctx, e, opUntag, e.deleteTags, &ec2.DeleteTagsInput{
		// Without a value, the tag would be deleted whatever its value is. An empty value is a value.
		Resources: []string{volume}, Tags: []types.Tag{{Key: &key, Value: &value}},
	})
}

func toSDK(tags map[string]string) []types.Tag {
	all := make([]types.Tag, 0, len(tags))
	for _, key := range sortedKeys(tags) {
		all = append(all, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return all
}
