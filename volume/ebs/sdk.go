package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// sdk has the operations of the SDK's client that are used: 7 of 800.
//
// It holds functions, never the client. Reflection can call every method of a type that is reachable through an
// interface, by fields, parameters or a generic function's dictionary. So the linker would keep all methods: 30 MB of
// the binary, some of it resident in every node. TestUnusedOperationsAreNotLinked checks this.
type sdk struct {
	describeVolumes   request[ec2.DescribeVolumesInput, ec2.DescribeVolumesOutput]
	describeInstances request[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	createVolume      request[ec2.CreateVolumeInput, ec2.CreateVolumeOutput]
	attachVolume      request[ec2.AttachVolumeInput, ec2.AttachVolumeOutput]
	detachVolume      request[ec2.DetachVolumeInput, ec2.DetachVolumeOutput]
	createTags        request[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	deleteTags        request[ec2.DeleteTagsInput, ec2.DeleteTagsOutput]
}

// request is a method of the SDK's client, bound to the client. Each option changes this request only.
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
