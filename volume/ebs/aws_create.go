package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// NewVolume is a blank volume to be created. EC2 checks which values go together, since its rules change.
type NewVolume struct {
	Zone       string
	SizeGiB    int32
	Type       string // gp3, io2, …
	IOPS       int32  // 0: the type's default
	Throughput int32  // MiB/s; 0: the type's default
	Encrypted  bool
	KMSKey     string // ID, alias or ARN; "": the account's default key for EBS
	Tags       map[string]string
	// Token, at most 64 characters, identifies the request: repeated with the same token, it creates only one volume.
	Token string
}

// TagsOf returns the tags of a new volume for one of a cluster's slots: those that the nodes look for, and further
// ones, KEY=VALUE. With KubernetesCluster they are kops' tags, so that kops recognises the volume as its own.
func (c Config) TagsOf(cluster, slot string, slots, further []string) map[string]string {
	e := c.For(cluster)
	tags := map[string]string{"Name": slot + "." + cluster}
	if c.KubernetesCluster != "" {
		tags = c.kopsTags(cluster, slot)
	}
	for _, t := range slices.Concat(e.Tags, further) {
		key, value, _ := strings.Cut(t, "=")
		tags[key] = value
	}
	tags[e.SlotTag] = slot
	if c.KubernetesCluster != "" { // as kops writes it
		tags[e.SlotTag] = slot + "/" + strings.Join(slices.Sorted(slices.Values(slots)), ",")
	}
	return tags
}

const (
	createWait   = 2 * time.Minute // for a volume to become available
	createSlowly = 5 * time.Second // longest pause between looks
)

// Create creates a volume and waits until it is available. If it fails after EC2 has accepted the request, it also
// returns the ID.
func (e *EC2) Create(ctx context.Context, n NewVolume) (id string, err error) {
	out, err := ask(ctx, e, opCreate, e.createVolume, n.input())
	if err != nil {
		return "", fmt.Errorf("create a volume in %s: %w", n.Zone, err)
	}
	id = aws.ToString(out.VolumeId)
	if err := e.awaitAvailable(ctx, id); err != nil {
		return id, fmt.Errorf("create volume %s in %s: %w", id, n.Zone, err)
	}
	return id, nil
}

func (n NewVolume) input() *ec2.CreateVolumeInput {
	in := &ec2.CreateVolumeInput{
		AvailabilityZone: &n.Zone, Size: &n.SizeGiB, VolumeType: types.VolumeType(n.Type),
		Encrypted: &n.Encrypted, Iops: given(n.IOPS), Throughput: given(n.Throughput),
		KmsKeyId: given(n.KMSKey), ClientToken: given(n.Token), // without a token the SDK makes one up
	}
	if len(n.Tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: toSDK(n.Tags)}}
	}
	return in
}

// given returns nil for the zero value, which means the service's default.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// awaitAvailable waits until a volume is available. EC2 only checks the key after it has accepted the request: the
// volume then goes to the state error, or vanishes.
func (e *EC2) awaitAvailable(ctx context.Context, id string) error {
	const key = "if it is encrypted, look whether the KMS key exists and is enabled, and whether the creator may use it " +
		"(kms:CreateGrant, kms:DescribeKey, kms:GenerateDataKeyWithoutPlaintext)"
	last := time.Now().Add(createWait)
	state, wait := "not visible yet", e.poll
	for {
		// The volume may not be visible yet, or the answer may be lost. Both are temporary.
		volumes, err := e.Volumes(ctx, Query{IDs: []string{id}})
		if err == nil && len(volumes) == 1 {
			state = volumes[0].State
		}
		switch m := MeaningOf(err); {
		case state == VolumeAvailable:
			return nil
		case Dead(state):
			return fmt.Errorf("EC2 gave it up, its state is %s: %s", state, key)
		case err != nil && (m == Denied || m == Invalid):
			return fmt.Errorf("it was accepted, but cannot be read: %w", err)
		case time.Now().After(last):
			return errors.Join(fmt.Errorf("not available after %s, its state is: %s; %s", createWait, state, key), err)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("wait until it is available (its state is: %s): %w", state, err)
		}
		wait = min(2*wait, createSlowly)
	}
}
