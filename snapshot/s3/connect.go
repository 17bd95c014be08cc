package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

const (
	// attempts of one request. If the service throttles, the pauses between them get longer.
	attempts = 5
	// idle is after how long idle connections are closed, long before they could stall.
	idle = 20 * time.Second
)

// load reads the SDK's configuration from the environment and files. It sends nothing.
func (s *Store) load(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithRegion(s.cfg.Region),
		config.WithLogger(logging.Nop{}), // what matters is returned as an error
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.IdleConnTimeout = idle
			t.DialContext = s.noted(watched(t.DialContext, s.stall))
		})),
		config.WithRetryer(func() aws.Retryer {
			// Both errors are temporary. If two conditional writes of one name come at the same moment, S3 wants one of them to
			// be repeated. If names are directories, one may be removed as empty while an object is put into it (versitygw
			// v1.8.0).
			return retry.AddWithErrorCodes(retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = attempts
				o.MaxBackoff = s.pause
			}), "ConditionalRequestConflict", "ExistingObjectIsDirectory")
		}))
	if err != nil {
		return cfg, fmt.Errorf("load the AWS configuration (environment, ~/.aws): %w", err)
	}
	if cfg.Region == "" && s.cfg.Endpoint != "" {
		cfg.Region = "us-east-1" // signatures need a region, and other services accept this one
	}
	if cfg.Credentials != nil {
		cfg.Credentials = chain{cfg.Credentials}
	}
	return cfg, nil
}

// connect returns the client, and makes it on the first call. Only then the instance may be asked for its region.
func (s *Store) connect(ctx context.Context) (*s3.Client, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	cfg, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s, err)
	}
	if cfg.Region == "" {
		here, err := imds.NewFromConfig(cfg).GetRegion(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("open store %s: set snapshot.s3.region or AWS_REGION, as the "+
				"instance metadata service cannot be asked: %w", s, err)
		}
		cfg.Region = here.Region
	}
	s.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = s.cfg.PathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
		o.APIOptions = append(o.APIOptions, checkGenuine)
		if s.cfg.Endpoint != "" {
			o.BaseEndpoint = &s.cfg.Endpoint
		}
	})
	return s.client, nil
}

// chain marks the errors of the credentials' sources as noCredentials.
type chain struct{ aws.CredentialsProvider }

type noCredentials struct{ error }

func (e noCredentials) Unwrap() error { return e.error }

func (c chain) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return got, noCredentials{err}
	}
	return got, nil
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// noted returns a dialer that records why the last connection failed. If the time runs out between two attempts, the
// SDK's error does not say so.
func (s *Store) noted(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil || ctx.Err() == nil {
			s.undialed.Store(&err)
		}
		return c, err
	}
}

const (
	// step is how much a slow connection must move, or its answer must end, in crawl times the time that it may be silent.
	step  = 64 << 10
	crawl = 5
)

// watched returns a dialer whose connections fail if no byte has moved, in either direction, for stall, or if an answer
// crawls.
func watched(dial dialer, stall time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: c, stall: stall}, nil
	}
}

type watchedConn struct {
	net.Conn
	stall   time.Duration
	stalled atomic.Bool

	mu    sync.Mutex
	wrote time.Time // the last step that was sent
	// read and waited are the bytes that came since then, or since the last step, and how long a reader waited for them.
	read   int
	waited time.Duration
}

func (c *watchedConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	left := crawl*c.stall - c.waited
	c.mu.Unlock()
	began := time.Now()
	c.Conn.SetReadDeadline(began.Add(min(c.stall, left))) // an error here also shows in Read
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrote.After(began) {
		began = c.wrote
	}
	if c.read, c.waited = c.read+n, c.waited+time.Since(began); c.read >= step {
		c.read, c.waited = 0, 0
	}
	return n, c.name(err)
}

// Write also extends the time for reading, because the answer cannot come before the request has been sent.
func (c *watchedConn) Write(p []byte) (n int, err error) {
	for { // in steps, so that a slow connection does not look stalled
		c.mu.Lock()
		c.wrote, c.read, c.waited = time.Now(), 0, 0
		c.Conn.SetDeadline(c.wrote.Add(c.stall))
		c.mu.Unlock()
		m, err := c.Conn.Write(p[n:min(n+step, len(p))])
		if n += m; err != nil || n == len(p) {
			return n, c.name(err)
		}
	}
}

// name replaces the error of a stalled connection, including a later one of a caller that finds it closed.
func (c *watchedConn) name(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.stalled.Store(true)
	}
	if err != nil && c.stalled.Load() {
		return fmt.Errorf("nothing moved on the connection for %s, or less than %d bytes in %s: %w", c.stall, step,
			crawl*c.stall, os.ErrDeadlineExceeded)
	}
	return err
}
