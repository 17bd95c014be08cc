package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Hurry sets how long a connection may be silent, and shortens the pauses between attempts. Call it before the first
// use.
func (s *Store) Hurry(stall time.Duration) { s.stall, s.pause = stall, 10*time.Millisecond }

// Explain returns an error of a request as the store explains it.
func (s *Store) Explain(ctx context.Context, err error) error { return s.explain(ctx, "get x", err) }

// Undialed makes err the reason why the last connection failed.
func (s *Store) Undialed(err error) { s.undialed.Store(&err) }

// Client returns the client of the store's requests.
func (s *Store) Client(ctx context.Context) (*s3.Client, error) { return s.connect(ctx) }
