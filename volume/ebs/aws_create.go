package ebs

import (
	"cmp"
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

// NewVolume is a blank volume to be created.
type NewVolume struct {
	Zone       string
	SizeGiB    int64
	Type       string // gp3, io2, …; "" is gp3
	IOPS       int64  // 0: the type's default
	Throughput int64  // MiB/s; 0: the type's default
	Encrypted  bool
	KMSKey     string // ID, alias or ARN; "": the account's default key for EBS
	Tags       map[string]string
	// Token, at most 64 characters, makes EC2 know the request again: the same one twice creates one volume.
	Token string
}

// TagsOf are the tags of a new volume for one of a cluster's slots: those that the nodes look for, and further ones,
// KEY=VALUE. With KubernetesCluster they are the ones that kops would give it, so that kops takes it for its own.
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

// volumeTypes are the types and what they take (CreateVolume in the EC2 API reference). The largest sizes and
// rates are EC2's business: they grow.
var volumeTypes = map[string]struct {
	least            int64 // GiB
	iops, throughput bool  // may be given
	provisioned      bool  // iops must be
}{
	"gp3":      {least: 1, iops: true, throughput: true},
	"gp2":      {least: 1},
	"io1":      {least: 4, iops: true, provisioned: true},
	"io2":      {least: 4, iops: true, provisioned: true},
	"st1":      {least: 125},
	"sc1":      {least: 125},
	"standard": {least: 1},
}

// Validate returns what of a new volume makes no sense, joined; nil when nothing.
func (n NewVolume) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n.Zone == "" {
		bad("no zone is given")
	}
	t, known := volumeTypes[n.kind()]
	switch {
	case !known:
		bad("type: must be gp3, gp2, io2, io1, st1, sc1 or standard, got %q", n.Type)
	case n.SizeGiB < t.least || n.SizeGiB > 1<<16:
		bad("size: must be %d GiB or more for %s, and at most 65536, got %d", t.least, n.kind(), n.SizeGiB)
	}
	for _, rate := range []struct {
		name    string
		got     int64
		allowed bool
	}{{"iops", n.IOPS, t.iops}, {"throughput", n.Throughput, t.throughput}} {
		switch {
		case rate.got < 0 || rate.got > 1<<20:
			bad("%s: out of range: %d", rate.name, rate.got)
		case known && rate.got != 0 && !rate.allowed:
			bad("%s: cannot be given for %s", rate.name, n.kind())
		}
	}
	if t.provisioned && n.IOPS == 0 {
		bad("iops: must be given for %s", n.kind())
	}
	if n.KMSKey != "" && !n.Encrypted {
		bad("a KMS key is given for a volume that is not to be encrypted")
	}
	if len(n.Token) > 64 {
		bad("token: must be at most 64 characters")
	}
	return errors.Join(errs...)
}

func (n NewVolume) kind() string { return cmp.Or(n.Type, "gp3") }

const (
	createWait   = 2 * time.Minute // for a volume to become available
	createSlowly = 5 * time.Second // longest pause between looks
)

// Create creates a volume and waits until it is available. With an error after EC2 has accepted, the ID is
// returned all the same.
func (e *EC2) Create(ctx context.Context, n NewVolume) (id string, err error) {
	if err := n.Validate(); err != nil {
		return "", fmt.Errorf("create a volume: %w", err)
	}
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
		AvailabilityZone: &n.Zone, Size: aws.Int32(int32(n.SizeGiB)), VolumeType: types.VolumeType(n.kind()),
		Encrypted: &n.Encrypted, Iops: given(int32(n.IOPS)), Throughput: given(int32(n.Throughput)),
		KmsKeyId: given(n.KMSKey), ClientToken: given(n.Token), // without one the SDK makes one up
	}
	if len(n.Tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: toSDK(n.Tags)}}
	}
	return in
}

// given is nil for the zero value: the service's default.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// awaitAvailable waits. EC2 checks the key only after it has accepted: the volume then goes to error, or just
// vanishes.
func (e *EC2) awaitAvailable(ctx context.Context, id string) error {
	const key = "if it is encrypted, look whether the KMS key exists and is enabled, and whether the creator may use it " +
		"(kms:CreateGrant, kms:DescribeKey, kms:GenerateDataKeyWithoutPlaintext)"
	last := time.Now().Add(createWait)
	state, wait := "not visible yet", e.poll
	for {
		// It may not be visible yet, or the answer may be lost: both pass.
		volumes, err := e.Volumes(ctx, Query{IDs: []string{id}})
		if err == nil && len(volumes) == 1 {
			state = volumes[0].State
		}
		switch m := MeaningOf(err); {
		case state == VolumeAvailable:
			return nil
		case state == string(types.VolumeStateError), state == string(types.VolumeStateDeleting),
			state == string(types.VolumeStateDeleted):
			return fmt.Errorf("EC2 gave it up, its state is %s: %s", state, key)
		case err != nil && (m == Denied || m == Invalid):
			return fmt.Errorf("it was accepted, and cannot be looked at: %w", err)
		case time.Now().After(last):
			return errors.Join(fmt.Errorf("not available after %s, its state is: %s; %s", createWait, state, key), err)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("wait until it is available (its state is: %s): %w", state, err)
		}
		wait = min(2*wait, createSlowly)
	}
}
