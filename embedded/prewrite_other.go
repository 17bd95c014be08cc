//go:build !linux

package embedded

import (
	"context"

	"go.uber.org/zap"
)

// prewrite does nothing: only Linux has what it needs.
func prewrite(context.Context, string, *zap.Logger) {}
