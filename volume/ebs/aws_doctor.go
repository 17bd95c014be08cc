package ebs

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Permission is EC2's answer about one action.
type Permission struct {
	Action  string // ec2:AttachVolume
	Known   bool   // EC2 gave a verdict
	Allowed bool
	Needed  bool   // a node cannot work without it
	Why     string // what it is needed for
	Detail  string // EC2's words if it is not allowed
}

// trial is one action to try.
type trial struct {
	op     string
	needed bool
	why    string
	send   func() error // with DryRun
}

// Permissions asks EC2 for every action whether this process may do it, with DryRun: nothing is executed. A policy may
// depend on the volume, the instance or the tags, so the requests name those that the node uses. Without a volume, an
// action that needs one is not asked about.
func (e *EC2) Permissions(ctx context.Context, volume, instance string) []Permission {
	var all []Permission
	obeyed := false
	for _, t := range e.questions(ctx) {
		p := judgeTrial(t, t.send())
		obeyed = obeyed || p.Allowed
		all = append(all, p)
	}
	for _, t := range e.changes(ctx, volume, instance) {
		switch {
		case !obeyed:
			// An endpoint that does not support DryRun would execute the request.
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

// mayDetach asks EC2, with DryRun, whether this process may detach a volume from another instance. Without an instance,
// the request is only about the volume, and a policy may decide otherwise. So it asks both.
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

// attached returns some attached volumes of the region, of any owner: those of the first page that has any.
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

// questions are the actions that never change anything.
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
func (e *EC2) changes(ctx context.Context, volume, instance string) []trial {
	yes := aws.Bool(true)
	tags := map[string]string{TagClaim: "v1", TagFormat: "v1", TagRecord: "v1"}
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

// judgeTrial interprets EC2's verdict: DryRunOperation, or UnauthorizedOperation. Any other error is no verdict. For
// example, EC2 may report that a volume is in use before or after it checks the permission.
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
