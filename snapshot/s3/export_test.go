package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Hurry sets how long a connection may be silent, and shortens the pauses between attempts. Call it before the first
// use.
func (s *Store) Hurry(stall time.Duration) { s.stall, s.pause = stall, 10*time.Millisecond }

// Client returns the client of the store's requests.
func (s *Store) Client(ctx context.Context) (*s3.Client, error) { return s.connect(ctx) }
