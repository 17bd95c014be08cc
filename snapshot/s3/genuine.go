package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
)

// errNotS3 reports a success that is not S3's: of a proxy, a portal or a web server. The SDK takes it for an empty
// listing, or for a write that was made. The service may have made the write all the same.
var errNotS3 error = notS3{errors.New("the answer is a success, and not one of an S3 service: check " +
	"snapshot.s3.endpoint, and what is between here and the service")}

// notS3 is an error after which the SDK tries again.
type notS3 struct{ error }

func (notS3) RetryableError() bool { return true }

// checkGenuine makes every attempt of a request fail if the answer lacks what each answer of S3 to that request has.
func checkGenuine(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("holdfast:Genuine", func(ctx context.Context,
		in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput,
		middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if err == nil && !genuine(out.Result) {
			err = errNotS3
		}
		return out, metadata, err
	}), middleware.Before)
}

// genuine reports whether a result has what each of its kind has. A deletion has nothing.
func genuine(result any) bool {
	switch r := result.(type) {
	case *s3.GetObjectOutput:
		if r.ETag == nil {
			r.Body.Close()
		}
		return r.ETag != nil
	case *s3.ListObjectsV2Output:
		return r.Name != nil
	case *s3.PutObjectOutput:
		return r.ETag != nil
	case *s3.CreateMultipartUploadOutput:
		return r.UploadId != nil
	case *s3.UploadPartOutput:
		return r.ETag != nil
	case *s3.CompleteMultipartUploadOutput:
		return r.ETag != nil
	}
	return true
}
