package ebs

import (
	"context"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// sdk is the part of the SDK's client that is used: 7 of its 800 operations.
//
// It hides the client's type. Reflection can call every method of a type that an interface leads to, by fields, by
// parameters or by a generic function's dictionary, so the linker keeps them all: 30 MB of the binary, and some of it
// resident in every node. TestUnusedOperationsAreNotLinked fails then.
type sdk struct {
	client unsafe.Pointer // to an ec2.Client
}

// options change one request.
type options = func(*ec2.Options)

func newSDK(c *ec2.Client) *sdk { return &sdk{unsafe.Pointer(c)} }

func (s *sdk) of() *ec2.Client { return (*ec2.Client)(s.client) }

func (s *sdk) DescribeVolumes(ctx context.Context, in *ec2.DescribeVolumesInput, o ...options,
) (*ec2.DescribeVolumesOutput, error) {
	return s.of().DescribeVolumes(ctx, in, o...)
}

func (s *sdk) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, o ...options,
) (*ec2.DescribeInstancesOutput, error) {
	return s.of().DescribeInstances(ctx, in, o...)
}

func (s *sdk) CreateVolume(ctx context.Context, in *ec2.CreateVolumeInput, o ...options,
) (*ec2.CreateVolumeOutput, error) {
	return s.of().CreateVolume(ctx, in, o...)
}

func (s *sdk) AttachVolume(ctx context.Context, in *ec2.AttachVolumeInput, o ...options,
) (*ec2.AttachVolumeOutput, error) {
	return s.of().AttachVolume(ctx, in, o...)
}

func (s *sdk) DetachVolume(ctx context.Context, in *ec2.DetachVolumeInput, o ...options,
) (*ec2.DetachVolumeOutput, error) {
	return s.of().DetachVolume(ctx, in, o...)
}

func (s *sdk) CreateTags(ctx context.Context, in *ec2.CreateTagsInput, o ...options,
) (*ec2.CreateTagsOutput, error) {
	return s.of().CreateTags(ctx, in, o...)
}

func (s *sdk) DeleteTags(ctx context.Context, in *ec2.DeleteTagsInput, o ...options,
) (*ec2.DeleteTagsOutput, error) {
	return s.of().DeleteTags(ctx, in, o...)
}
