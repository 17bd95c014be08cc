package ebs

import (
	"context"
	"fmt"
	"sync/atomic"

	"holdfast/volume"
)

// tags is the [volume.Carrier] of EC2: the text of a claim is the value of a tag on its volume.
type tags struct {
	*site
	status *status

	denied atomic.Bool // permission for CreateTags is missing
}

var _ volume.Carrier = (*tags)(nil)

func (t *tags) Read(ctx context.Context, vol string) (string, error) {
	v, _, err := t.one(ctx, vol)
	return v.Tags[TagClaim], err
}

// Write implements [volume.Carrier]. Without the permission it reports a problem and no error: tags decide nothing.
func (t *tags) Write(ctx context.Context, vol, text string) error {
	err := t.cloud.Tag(ctx, vol, map[string]string{TagClaim: text})
	denied := err != nil && MeaningOf(err) == Denied
	if err != nil && !denied {
		return fmt.Errorf("write the claim of %s: %w", vol, err)
	}
	t.denied.Store(denied)
	problem := ""
	if denied {
		problem = fmt.Sprintf("the claim of %s could not be written: %v; continuing without: give this instance "+
			"ec2:CreateTags, or set gossip.seeds, for the others cannot find it by the tag", vol, err)
	}
	t.status.problem("tags", problem)
	return nil
}

func (t *tags) Remove(ctx context.Context, vol, text string) error {
	return t.cloud.Untag(ctx, vol, TagClaim, text)
}

// isDenied reports whether permission was missing for writing the last claim.
func (t *tags) isDenied() bool { return t.denied.Load() }
