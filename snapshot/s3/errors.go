package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// hasCode reports whether err is the service's answer with this error code.
func hasCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}

// status returns the HTTP status of the answer, or 0 if there was none.
func status(err error) int {
	if r := answer(err); r != nil {
		return r.StatusCode
	}
	return 0
}

// answer returns the service's answer, or nil if there was none.
func answer(err error) *smithyhttp.Response {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil && r.Response.Response != nil {
		return r.Response
	}
	return nil
}

// advice has what an operator can do about an answer. The codes are from
// docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and for a full disk from other services.
var advice = map[string]string{
	"NoSuchBucket": "create the bucket, or correct snapshot.store",
	"AccessDenied": "give these credentials the rights listed in docs/s3.md, on the bucket and on its key; " +
		"without s3:ListBucket a missing object looks the same",
	"AllAccessDisabled":  "ask the owner of the account why access to the bucket is disabled",
	"InvalidAccessKeyId": "check the credentials; new ones are read at the next attempt",
	"XAdminUserNotFound": "check the credentials; new ones " +
		"are read at the next attempt", // versitygw's InvalidAccessKeyId
	"SignatureDoesNotMatch": "check the secret key; new credentials are read at the next attempt",
	"ExpiredToken":          "renew the credentials; they are read again at the next attempt",
	"InvalidToken":          "renew the credentials; they are read again at the next attempt",
	"TokenRefreshRequired":  "renew the credentials; they are read again at the next attempt",
	"RequestTimeTooSkewed":  "set this machine's clock",
	"SlowDown":              "the service is throttling; the next attempt may succeed",
	"ServiceUnavailable":    "the service is overloaded or down; try again later",
	"InternalError":         "the service failed; try again later",
	"QuotaExceeded":         "the service is full: make room there, or raise the quota",
	"NoSpaceLeftOnDevice":   "the service is full: make room there",
	"XMinioStorageFull":     "the service is full: make room there",
	"InsufficientStorage":   "the service is full: make room there",
	"NotImplemented":        "the service lacks something this needs; docs/s3.md says what",
	"InvalidObjectState": "the object is archived: restore it with the service's own tools first, and keep " +
		"lifecycle rules from archiving backups that may be needed at once",
	"InvalidStorageClass":       "correct snapshot.s3.storage-class",
	"KMS.NotFoundException":     "correct snapshot.s3.kms-key-id",
	"KMS.DisabledException":     "enable the KMS key",
	"NoSuchUpload":              "something has aborted the upload while it ran: see the bucket's lifecycle rules",
	"BadDigest":                 "the data was changed on its way; try again",
	"XAmzContentSHA256Mismatch": "the data was changed on its way; try again",
}

// full are the error codes of a service without room, which are also an ENOSPC.
var full = []string{"QuotaExceeded", "NoSpaceLeftOnDevice", "XMinioStorageFull", "InsufficientStorage"}

// stale are the error codes after which credentials are read again.
var stale = []string{"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "XAdminUserNotFound",
	"SignatureDoesNotMatch"}

// failure is an error of the SDK with a clearer text, without the SDK's preamble.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// explain returns an error that says what was being done where, what happened, and what to do about it.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		if last := s.undialed.Load(); last != nil && *last != nil {
			return fmt.Errorf("%s in %s: %w: the last attempt: %s: check snapshot.s3.endpoint, and whether the service runs",
				doing, s.where(), context.Cause(ctx), unreached(*last))
		}
		return fmt.Errorf("%s in %s: %w", doing, s.where(), context.Cause(ctx))
	}
	if slices.ContainsFunc(stale, func(code string) bool { return hasCode(err, code) }) {
		s.mu.Lock()
		s.client = nil // the next call reads the configuration and the credentials again
		s.mu.Unlock()
	}
	text := fmt.Sprintf("%s in %s: %s", doing, s.where(), words(err))
	if todo := s.todo(err); todo != "" {
		text += ": " + todo
	}
	if slices.ContainsFunc(full, func(code string) bool { return hasCode(err, code) }) {
		err = errors.Join(err, syscall.ENOSPC)
	}
	return &failure{text, err}
}

// where returns the store's URL, with the endpoint if one is configured.
func (s *Store) where() string {
	if s.cfg.Endpoint == "" {
		return s.String()
	}
	return s.String() + " at " + s.cfg.Endpoint
}

// requested is an error with the ID of its request.
type requested interface {
	error
	ServiceRequestID() string
}

// words returns the short text of an error of the SDK.
func words(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		request := ""
		if r, ok := errors.AsType[requested](err); ok && r.ServiceRequestID() != "" {
			request = ", request " + r.ServiceRequestID()
		}
		return fmt.Sprintf("%s: %s (HTTP %d%s)", api.ErrorCode(), api.ErrorMessage(), status(err), request)
	}
	if sent, ok := errors.AsType[*url.Error](err); ok {
		return unreached(sent.Err)
	}
	if other, ok := errors.AsType[notS3](err); ok {
		return other.Error()
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		return op.Err.Error()
	}
	return err.Error()
}

// unreached returns the text of an error of a connection. net's text of a nameserver's timeout has a port of this
// machine, another one each time.
func unreached(err error) string {
	if d, ok := errors.AsType[*net.DNSError](err); ok && d.IsTimeout {
		return fmt.Sprintf("look up %s: the nameserver did not answer in time", d.Name)
	}
	return err.Error()
}

// todo returns what an operator can do about an error, or "" if the error says enough.
func (s *Store) todo(err error) string {
	code, elsewhere := status(err), hasCode(err, "AuthorizationHeaderMalformed")
	elsewhere = elsewhere || code == http.StatusMovedPermanently
	if r := answer(err); r != nil && elsewhere {
		if right := r.Header.Get("X-Amz-Bucket-Region"); right != "" {
			return "the bucket is elsewhere: set snapshot.s3.region: " + right
		}
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch {
		case advice[api.ErrorCode()] != "":
			return advice[api.ErrorCode()]
		case elsewhere, hasCode(err, "IllegalLocationConstraintException"):
			return "set snapshot.s3.region to the bucket's region, and snapshot.s3.endpoint to its service"
		case code == http.StatusForbidden:
			return advice["AccessDenied"]
		case code == http.StatusNotFound:
			return "check snapshot.store and snapshot.s3.endpoint: this is not how a bucket says that an object is missing"
		case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests:
			return advice["SlowDown"]
		case code == http.StatusInsufficientStorage:
			return advice["InsufficientStorage"]
		}
	}
	lookup, unresolved := errors.AsType[*net.DNSError](err)
	timed, ofNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.As(err, new(noCredentials)):
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws, " +
			"or a role of the instance"
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.HostnameError)),
		errors.As(err, new(x509.CertificateInvalidError)):
		return "check the service's certificate and snapshot.s3.endpoint; AWS_CA_BUNDLE names a file with other authorities"
	case unresolved && lookup.IsTimeout:
		return "check the network between here and the nameserver"
	case unresolved:
		return "check snapshot.s3.endpoint and snapshot.s3.region, and whether the service wants snapshot.s3.path-style: true"
	case ofNetwork && timed.Timeout():
		return "check the network between here and the service"
	}
	return ""
}
