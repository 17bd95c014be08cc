package ebs

import (
	"context"
	"errors"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// ec2Series are the metrics of the requests to EC2.
type ec2Series struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// The values of the label code that are not codes of EC2.
const (
	codeOK    = "ok"
	codeNone  = "none"  // there was no answer
	codeOther = "other" // a code that is not in meanings; otherwise each unknown code would be a series forever
)

func newEC2Series(reg prometheus.Registerer) ec2Series {
	auto := promauto.With(reg)
	s := ec2Series{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "ec2", Name: "requests_total",
			Help: "Requests sent to EC2, each attempt counted, by operation and error code (ok: executed, none: no answer).",
		}, []string{"operation", "code"}),
		duration: auto.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "ec2", Name: "request_duration_seconds",
			Help:    "How long one attempt of a request to EC2 took.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"operation"}),
	}
	for _, op := range []string{opVolumes, opInstances, opAttach, opDetach, opTag, opUntag} {
		s.requests.WithLabelValues(op, codeOK)
	}
	return s
}

// count adds the counting at the step that each attempt passes after it was signed.
func (s ec2Series) count(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("holdfast.Count",
		func(ctx context.Context, in middleware.DeserializeInput,
			next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			start := time.Now()
			out, metadata, err := next.HandleDeserialize(ctx, in)
			op := awsmiddleware.GetOperationName(ctx)
			s.requests.WithLabelValues(op, codeLabel(err)).Inc()
			s.duration.WithLabelValues(op).Observe(time.Since(start).Seconds())
			return out, metadata, err
		}), middleware.Before)
}

func codeLabel(err error) string {
	if err == nil {
		return codeOK
	}
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return codeNone
	}
	if _, known := meanings[answer.ErrorCode()]; known {
		return answer.ErrorCode()
	}
	return codeOther
}
