package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Hurry sets for how long a connection may be silent, and shortens the pauses between attempts. It must be called
// before the first use.
func (s *Store) Hurry(stall time.Duration) { s.stall, s.pause = stall, 10*time.Millisecond }

// Client is what the store sends its requests with.
func (s *Store) Client(ctx context.Context) (*s3.Client, error) { return s.connect(ctx) }
