package ebs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
)

const (
	readAttempt  = 15 * time.Second // limit of one attempt to read
	readAttempts = 4                // per read; if all fail, the protocol handles it
	readBackoff  = 5 * time.Second  // longest pause between attempts
	changeWithin = 10 * time.Second // limit of one request that changes something
	pageSize     = 500              // volumes per page
)

// EC2 is the [Cloud] of an AWS region, through the SDK. Its methods may be called from several goroutines.
type EC2 struct {
	cfg      Config
	metadata *imds.Client
	series   ec2Series
	log      *zap.Logger
	backoff  func(try int) time.Duration // before a throttled change is sent again
	poll     time.Duration               // first pause between looks at a volume that is being created
	limit    time.Duration               // for one request that changes something

	asking *semaphore.Weighted // for the metadata service
	self   atomic.Pointer[Self]

	*sdk
}

// NewEC2 returns the client. It reads the SDK's own configuration (files, environment) and sends nothing: credentials
// and identity are fetched from a service when they are needed. cfg may give the endpoints, region, zone and instance.
// What it leaves empty is determined by the SDK, as in every AWS program, and then by the instance metadata service.
// The metrics are registered with reg, which may be nil.
func NewEC2(ctx context.Context, cfg Config, reg prometheus.Registerer, lg *zap.Logger) (*EC2, error) {
	options := []func(*config.LoadOptions) error{
		config.WithLogger(sdkLog(lg)),
		config.WithEC2IMDSEndpoint(cfg.MetadataEndpoint),
	}
	base, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	metadata := imds.NewFromConfig(base, func(o *imds.Options) {
		o.EnableFallback, o.HTTPClient = aws.FalseTernary, unproxied(o.HTTPClient)
	})
	// Again, because the credentials of the instance's role must also come through version 2 of the service only.
	base, err = config.LoadDefaultConfig(ctx, append(options,
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = metadata }))...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	cfg.Region = cmp.Or(cfg.Region, base.Region)
	e := &EC2{
		cfg: cfg, metadata: metadata, series: newEC2Series(reg), log: lg, asking: semaphore.NewWeighted(1),
		backoff: throttleBackoff, poll: time.Second, limit: changeWithin,
	}
	e.sdk = newSDK(ec2.NewFromConfig(base, e.configure))
	return e, nil
}

// unproxied returns the client for the metadata service, without a proxy. The service answers for the instance that
// asks: through a proxy it would give the proxy's identity, if any. HTTP_PROXY without NO_PROXY is common on machines
// that reach AWS through a proxy.
func unproxied(client imds.HTTPClient) imds.HTTPClient {
	if c, ok := client.(*awshttp.BuildableClient); ok {
		return c.WithTransportOptions(func(t *http.Transport) { t.Proxy = nil })
	}
	return client
}

// region returns the option with the region of a request. It may have to ask for the region first.
func (e *EC2) region(ctx context.Context) (func(*ec2.Options), error) {
	region := e.cfg.Region
	if region == "" {
		me, err := e.Identity(ctx)
		if err != nil {
			return nil, noRegion(err)
		}
		region = me.Region
	}
	return func(o *ec2.Options) { o.Region = region }, nil
}

func (e *EC2) configure(o *ec2.Options) {
	if e.cfg.Endpoint != "" {
		o.BaseEndpoint = aws.String(e.cfg.Endpoint)
	}
	// The SDK takes a deadline of the context for the caller's wish to stop, and does not retry. So the HTTP client limits
	// each attempt.
	if h, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = h.WithTimeout(readAttempt)
	}
	o.Retryer = retry.NewAdaptiveMode(func(a *retry.AdaptiveModeOptions) {
		a.StandardOptions = append(a.StandardOptions, func(s *retry.StandardOptions) {
			s.MaxAttempts, s.MaxBackoff = readAttempts, readBackoff
			// The number of attempts is enough of a limit. A long outage would use up the quota, and its error would hide the
			// one that says what is wrong.
			s.RateLimiter = ratelimit.None
		})
	})
	o.APIOptions = append(o.APIOptions, e.series.count)
}

// ask sends a request that may be repeated: it changes nothing, or EC2 recognises it by its token.
func ask[In, Out any](ctx context.Context, e *EC2, op string, call request[In, Out], in *In) (*Out, error) {
	region, err := e.region(ctx)
	if err != nil {
		return nil, unsent(op, err)
	}
	out, err := call(ctx, in, region)
	if err != nil {
		return nil, translate(op, err)
	}
	return out, nil
}

// change sends a request once. If it were repeated, the repetition would meet the effect of the first request, and fail
// because of it. Only a throttled request, which was certainly not executed, is sent again, after a pause.
func change[In, Out any](ctx context.Context, e *EC2, op string, call request[In, Out], in *In) error {
	region, err := e.region(ctx)
	if err != nil {
		return unsent(op, err)
	}
	for try := 0; ; try++ {
		err := once(ctx, e, region, op, call, in)
		if MeaningOf(err) != Throttled || try == throttleTries {
			return err
		}
		e.log.Info("EC2 throttles", zap.String("operation", op), zap.Int("try", try+1))
		if pause(ctx, e.backoff(try)) != nil {
			return err
		}
	}
}

func once[In, Out any](ctx context.Context, e *EC2, region func(*ec2.Options), op string, call request[In, Out],
	in *In) error {
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	var sent atomic.Bool
	_, err := call(ctx, in, region, func(o *ec2.Options) {
		o.Retryer = aws.NopRetryer{}
		o.APIOptions = append(o.APIOptions,
			func(s *middleware.Stack) error { return s.Deserialize.Add(mark(&sent), middleware.Before) })
	})
	switch {
	case err == nil:
		return nil
	case !sent.Load():
		return unsent(op, err)
	}
	return translate(op, err)
}

// mark records that a request is signed and about to be sent. A failure before that, such as fetching the credentials,
// has no effect on EC2.
func mark(sent *atomic.Bool) middleware.DeserializeMiddleware {
	return middleware.DeserializeMiddlewareFunc("holdfast.Sent",
		func(ctx context.Context, in middleware.DeserializeInput,
			next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			sent.Store(true)
			return next.HandleDeserialize(ctx, in)
		})
}

func sdkLog(lg *zap.Logger) logging.Logger {
	s := lg.Sugar()
	return logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
		if c == logging.Warn {
			s.Warnf("AWS SDK: "+format, v...)
			return
		}
		s.Debugf("AWS SDK: "+format, v...)
	})
}
