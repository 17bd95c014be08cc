package cmd

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// Who interrupts a drain that waits is told of the refusal.
func TestWhileRefusedIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var told bytes.Buffer
	err := whileRefused(ctx, time.Hour, &told, func() (string, error) {
		cancel()
		return "another member is down", nil
	})
	if err != nil || told.String() != "not yet: another member is down\n" {
		t.Errorf("got %v and %q", err, told.String())
	}
}
