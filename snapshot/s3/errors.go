package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// hasCode reports whether err is the service's answer with this error code.
func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// refused reports whether the condition of a write did not hold.
func refused(err error) bool {
	return hasCode(err, "PreconditionFailed") || status(err) == http.StatusPreconditionFailed
}

// status is the HTTP status of the answer, 0 if there was none.
func status(err error) int {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil && r.Response.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// Advice for the answers that an operator can do something about. The codes are those of
// docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and of other services for a full disk.
var advice = map[string]string{
	"NoSuchBucket":              "create the bucket, or correct snapshot.store",
	"AccessDenied":              "give these credentials the rights listed in docs/s3.md, on the bucket and on its key; without s3:ListBucket a missing object looks the same",
	"AllAccessDisabled":         "ask the owner of the account why access to the bucket is disabled",
	"InvalidAccessKeyId":        "check the credentials; new ones are read at the next attempt",
	"XAdminUserNotFound":        "check the credentials; new ones are read at the next attempt", // versitygw's InvalidAccessKeyId
	"SignatureDoesNotMatch":     "check the secret key; new credentials are read at the next attempt",
	"ExpiredToken":              "renew the credentials; they are read again at the next attempt",
	"InvalidToken":              "renew the credentials; they are read again at the next attempt",
	"TokenRefreshRequired":      "renew the credentials; they are read again at the next attempt",
	"RequestTimeTooSkewed":      "set this machine's clock",
	"SlowDown":                  "the service is throttling; the next attempt may succeed",
	"ServiceUnavailable":        "the service is overloaded or down; try again later",
	"InternalError":             "the service failed; try again later",
	"QuotaExceeded":             "the service is full: make room there, or raise the quota",
	"NoSpaceLeftOnDevice":       "the service is full: make room there",
	"XMinioStorageFull":         "the service is full: make room there",
	"InsufficientStorage":       "the service is full: make room there",
	"NotImplemented":            "the service lacks something this needs; docs/s3.md says what",
	"InvalidObjectState":        "the object is archived: restore it with the service's own tools first, and keep lifecycle rules from archiving backups that may be needed at once",
	"InvalidStorageClass":       "correct snapshot.s3.storage-class",
	"KMS.NotFoundException":     "correct snapshot.s3.kms-key-id",
	"KMS.DisabledException":     "enable the KMS key",
	"NoSuchUpload":              "something has aborted the upload while it ran: see the bucket's lifecycle rules",
	"BadDigest":                 "the data was changed on its way; try again",
	"XAmzContentSHA256Mismatch": "the data was changed on its way; try again",
}

// stale are the answers after which credentials are read again.
var stale = []string{"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "XAdminUserNotFound",
	"SignatureDoesNotMatch"}

// failure is an error of the SDK in words, without the SDK's preamble.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// explain says what was being done where, what happened, and what to do about it.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		if last := s.undialed.Load(); last != nil && *last != nil {
			return fmt.Errorf("%s in %s: %w: the last attempt: %v: check snapshot.s3.endpoint, and whether the service runs",
				doing, s.where(), context.Cause(ctx), *last)
		}
		return fmt.Errorf("%s in %s: %w", doing, s.where(), context.Cause(ctx))
	}
	for _, code := range stale {
		if hasCode(err, code) {
			s.forget()
		}
	}
	text := fmt.Sprintf("%s in %s: %s", doing, s.where(), words(err))
	if todo := s.todo(err); todo != "" {
		text += ": " + todo
	}
	return &failure{text, err}
}

// where is the store's URL, with the service that was named.
func (s *Store) where() string {
	if s.cfg.Endpoint == "" {
		return s.String()
	}
	return s.String() + " at " + s.cfg.Endpoint
}

// words is what an error of the SDK says, short.
func words(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		var request interface{ ServiceRequestID() string }
		if errors.As(err, &request) && request.ServiceRequestID() != "" {
			return fmt.Sprintf("%s: %s (HTTP %d, request %s)", api.ErrorCode(), api.ErrorMessage(), status(err),
				request.ServiceRequestID())
		}
		return fmt.Sprintf("%s: %s (HTTP %d)", api.ErrorCode(), api.ErrorMessage(), status(err))
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		return sent.Err.Error()
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// todo says what an operator can do about an error, "" where the error says enough.
func (s *Store) todo(err error) string {
	var (
		answer *smithyhttp.ResponseError
		api    smithy.APIError
		dns    *net.DNSError
		timed  net.Error
	)
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.Response != nil {
		right := answer.Response.Header.Get("X-Amz-Bucket-Region")
		if right != "" && (answer.HTTPStatusCode() == http.StatusMovedPermanently ||
			hasCode(err, "AuthorizationHeaderMalformed")) {
			return "the bucket is elsewhere: set snapshot.s3.region: " + right
		}
	}
	if errors.As(err, &api) {
		switch {
		case advice[api.ErrorCode()] != "":
			return advice[api.ErrorCode()]
		case status(err) == http.StatusMovedPermanently, hasCode(err, "AuthorizationHeaderMalformed"),
			hasCode(err, "IllegalLocationConstraintException"):
			return "set snapshot.s3.region to the bucket's region, and snapshot.s3.endpoint to its service"
		case status(err) == http.StatusForbidden:
			return advice["AccessDenied"]
		case status(err) == http.StatusNotFound:
			return "check snapshot.store and snapshot.s3.endpoint: this is not how a bucket says that an object is missing"
		case status(err) == http.StatusServiceUnavailable, status(err) == http.StatusTooManyRequests:
			return advice["SlowDown"]
		case status(err) == http.StatusInsufficientStorage:
			return advice["InsufficientStorage"]
		}
	}
	switch {
	case errors.As(err, new(noCredentials)):
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws, or a role of the instance"
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.HostnameError)),
		errors.As(err, new(x509.CertificateInvalidError)):
		return "check the service's certificate and snapshot.s3.endpoint; AWS_CA_BUNDLE names a file with other authorities"
	case errors.As(err, &dns):
		return "check snapshot.s3.endpoint and snapshot.s3.region, and whether the service wants snapshot.s3.path-style: true"
	case errors.As(err, &timed) && timed.Timeout():
		return "check the network between here and the service"
	}
	return ""
}
