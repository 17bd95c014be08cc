package ebs

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	codeDryRun       = "DryRunOperation"
	codeUnknown      = "UnknownError" // the SDK's word for an answer without a code
	codeInvalidValue = "InvalidParameterValue"
	codeUnsupported  = "UnsupportedOperation"
)

// meanings is what every error code means that is known to be possible for our operations. Unless something
// else is said, the code is in "Error codes for the Amazon EC2 API" of the EC2 API reference; "query" is
// "Common Errors" of AWS's query APIs, "SDK" the SDK's own list of throttling codes, and "seen" was met by
// others. What says only that the request cannot be right is not here: any other error of the client's is Invalid.
var meanings = map[string]Meaning{
	// Somebody has the volume.
	"VolumeInUse": InUse,

	// Something is on its way, or EC2 wants to be asked again with other credentials or another time.
	// of the volume: "is not 'available'"; of DetachVolume: not attached; of the instance: "is not 'running'"
	"IncorrectState":             NotNow,
	"IncorrectInstanceState":     NotNow,
	"InvalidState":               NotNow,
	"InvalidInstanceState":       NotNow,
	"InsufficientVolumeCapacity": NotNow, // CreateVolume; a server's error, and yet a refusal
	// signed more than 15 min ago, or ahead: the SDK corrects its clock by the answer
	"RequestExpired":                    NotNow,
	"ExpiredToken":                      NotNow, // query; the SDK fetches new credentials
	"ExpiredTokenException":             NotNow, // query
	"RequestTimeTooSkewed":              NotNow, // query
	"InvalidSecurity.RequestHasExpired": NotNow,
	"RequestInTheFuture":                NotNow, // query

	// The device name.
	"InvalidDevice.InUse": NameTaken,

	// The instance is full.
	"AttachmentLimitExceeded": NoRoom,

	// Never this volume on this instance.
	"InvalidVolume.ZoneMismatch":   Misplaced,
	"InvalidVolumeID.ZoneMismatch": Misplaced,
	"ZonesMismatched":              Misplaced,
	"NonEBSInstance":               Misplaced,
	"EncryptedVolumesNotSupported": Misplaced, // the instance type cannot have encrypted volumes

	// Unknown to the view that answered.
	"InvalidVolume.NotFound":       NotFound,
	"InvalidInstanceID.NotFound":   NotFound,
	"InvalidAttachment.NotFound":   NotFound, // DetachVolume: not attached to that instance
	"InvalidAttachmentID.NotFound": NotFound,

	// Not allowed.
	"UnauthorizedOperation":      Denied,
	"OptInRequired":              Denied,
	"Blocked":                    Denied, // the account
	"PendingVerification":        Denied, // the account
	"AccessDenied":               Denied, // query; policies of organizations and of VPC endpoints
	"AccessDeniedException":      Denied, // query
	"NotAuthorized":              Denied, // query
	"TagPolicyViolation":         Denied, // CreateTags, by a policy of the organization
	"CustomerKeyHasBeenRevoked":  Denied, // the KMS key, or the permission to use it (seen of AttachVolume)
	"InvalidKMSKey.InvalidState": Denied, // seen of the asynchronous failure

	// Too many requests.
	"RequestLimitExceeded":      Throttled,
	"ConcurrentTagAccess":       Throttled, // simultaneous commands for the tags of one volume
	"Throttling":                Throttled, // query
	"ThrottlingException":       Throttled, // query
	"ThrottledException":        Throttled, // SDK
	"RequestThrottled":          Throttled, // SDK
	"RequestThrottledException": Throttled, // SDK
	"EC2ThrottledException":     Throttled, // SDK
	"TooManyRequestsException":  Throttled, // SDK
	"BandwidthLimitExceeded":    Throttled, // SDK
	"SlowDown":                  Throttled, // SDK
	"PriorRequestNotComplete":   Throttled, // SDK

	// Credentials that are not accepted. No permission is missing, so it does not mean to continue without one.
	"AuthFailure":                 Invalid,
	"InvalidClientTokenId":        Invalid,
	"MissingAuthenticationToken":  Invalid,
	"IncompleteSignature":         Invalid,
	"SignatureDoesNotMatch":       Invalid, // query
	"InvalidSignatureException":   Invalid, // query
	"UnrecognizedClientException": Invalid, // query
	"InvalidAccessKeyId":          Invalid, // query

	// Something broke at EC2. It may have been after the work was done.
	"InternalError":           Uncertain,
	"InternalFailure":         Uncertain,
	"ServiceUnavailable":      Uncertain,
	"Unavailable":             Uncertain,
	"RequestTimeout":          Uncertain, // SDK
	"RequestTimeoutException": Uncertain, // SDK
}

// nameTaken is how AttachVolume says that a device name is in use, which has no code of its own.
var nameTaken = regexp.MustCompile(`(?i)attachment point .* is already in use`)

// meaningOf returns what an answer means.
func meaningOf(op, code, message string, status int) Meaning {
	switch {
	case op == opAttach && code == codeInvalidValue && nameTaken.MatchString(message):
		return NameTaken
	case op == opAttach && (code == codeUnsupported || code == "Unsupported"):
		return Misplaced // the instance type, or the kind of the volume
	}
	if m, known := meanings[code]; known {
		return m
	}
	switch {
	case code == codeUnknown || code == "":
		return Uncertain // no answer of EC2's, but of something on the way to it
	case status == http.StatusTooManyRequests:
		return Throttled
	case status >= 400 && status < 500:
		return Invalid
	}
	return Uncertain
}

// translate makes an *Error of the SDK's.
func translate(op string, err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok || answer.ErrorCode() == codeUnknown {
		return &Error{Op: op, Meaning: Uncertain, Err: plain(err)}
	}
	code, status := answer.ErrorCode(), 0
	said := saying{text: withoutSecrets(answer.ErrorMessage()), err: err}
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status, said.request = response.HTTPStatusCode(), response.ServiceRequestID()
	}
	return &Error{Op: op, Code: code, Meaning: meaningOf(op, code, answer.ErrorMessage(), status), Err: said}
}

// saying is what EC2 said, without what the SDK puts around it.
type saying struct {
	text, request string
	err           error
}

func (s saying) Error() string {
	if s.request == "" {
		return s.text
	}
	return fmt.Sprintf("%s (request %s)", s.text, s.request) // AWS's support asks for it
}

func (s saying) Unwrap() error { return s.err }

// secrets is where the part of a message begins that repeats the request: for a wrong signature AWS shows
// what should have been signed, and the session's token is in it.
var secrets = regexp.MustCompile(`(?is)\s*(the canonical string|the string-to-sign|x-amz-security-token|\n).*`)

func withoutSecrets(message string) string {
	return secrets.ReplaceAllString(strings.TrimSpace(message), "")
}

// plain takes away what the SDK puts around an error without an answer. It goes no deeper: below may be the
// error of another service, such as the one that was asked for credentials, and who said it must stay.
func plain(err error) error {
	for {
		switch e := err.(type) {
		case *smithy.OperationError:
			err = e.Err
		case *retry.MaxAttemptsError:
			err = e.Err
		case *awshttp.ResponseError:
			err = e.ResponseError.Err
		case *smithyhttp.RequestSendError:
			return e.Err
		default:
			return err
		}
	}
}

// unsent is the error of a request that was not sent, as the credentials or the region could not be found
// out. That may pass, so it means to try again.
func unsent(op string, err error) error {
	return &Error{Op: op, Meaning: NotNow, Err: fmt.Errorf("not sent: %w", plain(err))}
}

// senseless is the error of a request that must not be sent.
func senseless(op, why string) error { return &Error{Op: op, Meaning: Invalid, Err: errors.New(why)} }
