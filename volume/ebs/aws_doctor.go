package ebs

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Permission is what EC2 said of one action.
type Permission struct {
	Action  string // ec2:AttachVolume
	Known   bool   // EC2 gave a verdict
	Allowed bool
	Needed  bool   // a node cannot do without
	Why     string // what it is for
	Detail  string // EC2's words when it is not allowed
}

// trial is one action to be tried.
type trial struct {
	op     string
	needed bool
	why    string
	send   func() error // with DryRun
}

// Permissions asks EC2 of every action whether this process may do it, by DryRun: nothing is executed. The
// policy may be about a certain volume, instance or tag, so those that the node uses are named; tags are the
// keys of those it writes, TagClaim and TagFormat when none are given. What needs a volume is not asked
// without one.
func (e *EC2) Permissions(ctx context.Context, volume, instance string, tags ...string) []Permission {
	var all []Permission
	obeyed := false
	for _, t := range e.questions(ctx) {
		p := judgeTrial(t, t.send())
		obeyed = obeyed || p.Allowed
		all = append(all, p)
	}
	for _, t := range e.changes(ctx, volume, instance, tags) {
		switch {
		case !obeyed:
			// An endpoint that does not know DryRun would execute the request.
			all = append(all, unasked(t,
				"not asked: only an endpoint that has answered DryRun as EC2 does is trusted with an action that changes "+
					"something; cure the ones before it first"))
		case volume == "" && t.op != opCreate:
			all = append(all, unasked(t, "not asked: there is no volume to ask about"))
		case instance == "" && (t.op == opAttach || t.op == opDetach):
			all = append(all, unasked(t, "not asked: it is not known which instance this is"))
		default:
			all = append(all, judgeTrial(t, t.send()))
		}
	}
	return all
}

// mayDetach asks EC2, by DryRun, whether this process may detach a volume that another instance has. Without the name
// of the instance the request is about the volume alone, which a policy may judge otherwise: both are asked.
func (e *EC2) mayDetach(ctx context.Context, volume, instance string) Permission {
	verdict := Permission{}
	for _, from := range []*string{&instance, nil} {
		t := trial{opDetach, false, "to take a volume from another instance, which no node needs", func() error {
			return change(ctx, e, opDetach, e.detachVolume,
				&ec2.DetachVolumeInput{DryRun: aws.Bool(true), VolumeId: &volume, InstanceId: from})
		}}
		p := judgeTrial(t, t.send())
		if p.Allowed {
			return p
		}
		if !verdict.Known {
			verdict = p
		}
	}
	return verdict
}

// attached returns some volumes of the region that are attached, whosever they are: those of the first page that has
// any.
func (e *EC2) attached(ctx context.Context) ([]Volume, error) {
	in := &ec2.DescribeVolumesInput{MaxResults: aws.Int32(pageSize), Filters: []types.Filter{
		{Name: aws.String("attachment.status"), Values: []string{Attached}}}}
	for {
		out, err := ask(ctx, e, opVolumes, e.describeVolumes, in)
		if err != nil {
			return nil, err
		}
		var some []Volume
		for _, v := range out.Volumes {
			some = append(some, fromSDK(v))
		}
		more, err := turnPage(opVolumes, &in.NextToken, out.NextToken)
		if err != nil || len(some) > 0 || !more {
			return some, err
		}
	}
}

// questions are the actions that change nothing in any case.
func (e *EC2) questions(ctx context.Context) []trial {
	yes := aws.Bool(true)
	return []trial{
		{opVolumes, true, "to find the cluster's volumes and see who has them", func() error {
			_, err := ask(ctx, e, opVolumes, e.describeVolumes, &ec2.DescribeVolumesInput{DryRun: yes})
			return err
		}},
		{opInstances, false,
			"to see that the holder of a volume is stopped; without it volume.ebs.takeover must be terminated", func() error {
				_, err := ask(ctx, e, opInstances, e.describeInstances, &ec2.DescribeInstancesInput{DryRun: yes})
				return err
			}},
	}
}

// changes are the actions that would change something without DryRun.
func (e *EC2) changes(ctx context.Context, volume, instance string, keys []string) []trial {
	yes := aws.Bool(true)
	if len(keys) == 0 {
		keys = []string{TagClaim, TagFormat}
	}
	tags := map[string]string{}
	for _, key := range keys {
		tags[key] = "v1"
	}
	return []trial{
		{opAttach, true, "to take a volume", func() error {
			return change(ctx, e, opAttach, e.attachVolume,
				&ec2.AttachVolumeInput{DryRun: yes, VolumeId: &volume, InstanceId: &instance, Device: aws.String("/dev/sdp")})
		}},
		{opDetach, true, "to give a volume up, and to undo an attachment that brings no device", func() error {
			return change(ctx, e, opDetach, e.detachVolume,
				&ec2.DetachVolumeInput{DryRun: yes, VolumeId: &volume, InstanceId: &instance})
		}},
		{opTag, false,
			"to write claims; without it nodes run into each other more often, and cannot find each other without gossip.seeds",
			func() error {
				return change(ctx, e, opTag, e.createTags,
					&ec2.CreateTagsInput{DryRun: yes, Resources: []string{volume}, Tags: toSDK(tags)})
			}},
		{opUntag, false, "to remove the claim of a volume that is given up; without it others wait before they take it",
			func() error {
				return change(ctx, e, opUntag, e.deleteTags,
					&ec2.DeleteTagsInput{DryRun: yes, Resources: []string{volume}, Tags: toSDK(tags)})
			}},
		{opCreate, false, "for `holdfast volume create` only; a node does not need it", func() error {
			me, err := e.Identity(ctx)
			if err != nil {
				return err
			}
			_, err = ask(ctx, e, opCreate, e.createVolume, &ec2.CreateVolumeInput{
				DryRun: yes, AvailabilityZone: &me.Zone, Size: aws.Int32(1), VolumeType: "gp3", Encrypted: yes,
			})
			return err
		}},
	}
}

// judgeTrial reads EC2's verdict: DryRunOperation, or UnauthorizedOperation. Anything else is none; that the
// volume is in use, for instance, is said of it before or after the permission was looked at.
func judgeTrial(t trial, err error) Permission {
	p := unasked(t, "")
	e, answered := errors.AsType[*Error](err)
	switch {
	case err == nil:
		p.Detail = "unknown: the endpoint does not know DryRun"
	case answered && e.Code == codeDryRun:
		p.Known, p.Allowed = true, true
	case answered && e.Meaning == Denied:
		p.Known, p.Detail = true, err.Error()
	default:
		p.Detail = fmt.Sprintf("unknown: %v", err)
	}
	return p
}

func unasked(t trial, detail string) Permission {
	return Permission{Action: "ec2:" + t.op, Needed: t.needed, Why: t.why, Detail: detail}
}
