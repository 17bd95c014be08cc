package ebs

import (
	"context"
	"maps"
	"testing"

	"go.uber.org/zap"

	"holdfast/volume/volumetest"
)

// tagged is a cloud with one volume, whose tags can be read and written, and nothing else.
type tagged struct {
	Cloud
	tags map[string]string
}

func (c tagged) Volumes(context.Context, Query) ([]Volume, error) {
	return []Volume{{ID: "vol-1", Tags: maps.Clone(c.tags)}}, nil
}

func (c tagged) Tag(_ context.Context, _ string, tags map[string]string) error {
	maps.Copy(c.tags, tags)
	return nil
}

func (c tagged) Untag(_ context.Context, _, key, value string) error {
	if c.tags[key] == value {
		delete(c.tags, key)
	}
	return nil
}

func TestTagsCarryClaims(t *testing.T) {
	p := New(Default(), Node{Cluster: "main"}, tagged{tags: map[string]string{}}, Host{}, service{}, nil, zap.NewNop())
	volumetest.RunCarrier(t, p.claims, "vol-1")
}
