package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// sdk is the part of the SDK's client that is used: 7 of its 800 operations.
//
// It holds functions, never the client. Reflection can call every method of a type that an interface leads to, by
// fields, by parameters or by a generic function's dictionary, so the linker keeps them all: 30 MB of the binary, and
// some of it resident in every node. TestUnusedOperationsAreNotLinked fails then.
type sdk struct {
	describeVolumes   request[ec2.DescribeVolumesInput, ec2.DescribeVolumesOutput]
	describeInstances request[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	createVolume      request[ec2.CreateVolumeInput, ec2.CreateVolumeOutput]
	attachVolume      request[ec2.AttachVolumeInput, ec2.AttachVolumeOutput]
	detachVolume      request[ec2.DetachVolumeInput, ec2.DetachVolumeOutput]
	createTags        request[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	deleteTags        request[ec2.DeleteTagsInput, ec2.DeleteTagsOutput]
}

// request is a method of the SDK's client, bound to it. Each option changes this request.
type request[In, Out any] func(ctx context.Context, in *In, options ...func(*ec2.Options)) (*Out, error)

func newSDK(c *ec2.Client) *sdk {
	return &sdk{
		describeVolumes:   c.DescribeVolumes,
		describeInstances: c.DescribeInstances,
		createVolume:      c.CreateVolume,
		attachVolume:      c.AttachVolume,
		detachVolume:      c.DetachVolume,
		createTags:        c.CreateTags,
		deleteTags:        c.DeleteTags,
	}
}
