package volumetest_test

import (
	"context"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"holdfast/volume/volumetest"
)

// TestShortLabels is the example in docs/design.md, "Add a provider": a carrier for a cloud whose labels are too short
// for a claim and allow too few characters.
func TestShortLabels(t *testing.T) { volumetest.RunCarrier(t, &labels{}, "disk-a") }

// labels is a carrier whose labels hold 63 characters of a-z and 0-9. All labels of a disk change together.
type labels struct {
	mu  sync.Mutex
	all map[string]map[string]string // labels by disk
}

var alphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func (l *labels) Read(_ context.Context, vol string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var code string
	for _, key := range slices.Sorted(maps.Keys(l.all[vol])) {
		code += l.all[vol][key]
	}
	text, err := alphabet.DecodeString(code)
	return string(text), err
}

func (l *labels) Write(_ context.Context, vol, text string) error {
	set := map[string]string{}
	for part := range slices.Chunk([]byte(alphabet.EncodeToString([]byte(text))), 63) {
		set[fmt.Sprintf("holdfast-claim-%02d", len(set))] = string(part)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]map[string]string{}
	}
	l.all[vol] = set
	return nil
}

func (l *labels) Remove(ctx context.Context, vol, text string) error {
	if now, err := l.Read(ctx, vol); err != nil || now != text {
		return err
	}
	return l.Write(ctx, vol, "")
}
