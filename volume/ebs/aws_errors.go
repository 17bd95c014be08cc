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
	codeUnknown      = "UnknownError" // the SDK's code for an answer without a code
	codeInvalidValue = "InvalidParameterValue"
	codeUnsupported  = "UnsupportedOperation"
)

// meanings has the meaning of every error code that is known to be possible for the operations used here. Unless noted
// otherwise, the code is in "Error codes for the Amazon EC2 API" of the EC2 API reference. "query" is "Common Errors"
// of AWS's query APIs, "SDK" is the SDK's own list of throttling codes, and "seen" was reported by others. Codes that
// only say that the request is wrong are left out: any other client error is Invalid.
var meanings = map[string]Meaning{
	// The volume is held.
	"VolumeInUse": InUse,

	// A transition is in progress, or EC2 wants to be asked again with other credentials or at another time.
	// IncorrectState, of the volume: "is not 'available'"; of DetachVolume: not attached; of the instance: "is not
	// 'running'".
	"IncorrectState":             NotNow,
	"IncorrectInstanceState":     NotNow,
	"InvalidState":               NotNow,
	"InvalidInstanceState":       NotNow,
	"InsufficientVolumeCapacity": NotNow, // CreateVolume; a server error, but a refusal
	// RequestExpired: signed more than 15 min ago, or in the future; the SDK corrects its clock by the answer.
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

	// This volume can never be attached to this instance.
	"InvalidVolume.ZoneMismatch":   Misplaced,
	"InvalidVolumeID.ZoneMismatch": Misplaced,
	"ZonesMismatched":              Misplaced,
	"NonEBSInstance":               Misplaced,
	"EncryptedVolumesNotSupported": Misplaced, // the instance type cannot have encrypted volumes

	// Unknown to the server that answered.
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

	// Credentials that are not accepted. This is not a missing permission, without which a node could continue.
	"AuthFailure":                 Invalid,
	"InvalidClientTokenId":        Invalid,
	"MissingAuthenticationToken":  Invalid,
	"IncompleteSignature":         Invalid,
	"SignatureDoesNotMatch":       Invalid, // query
	"InvalidSignatureException":   Invalid, // query
	"UnrecognizedClientException": Invalid, // query
	"InvalidAccessKeyId":          Invalid, // query

	// An error inside EC2, perhaps after the work was done.
	"InternalError":           Uncertain,
	"InternalFailure":         Uncertain,
	"ServiceUnavailable":      Uncertain,
	"Unavailable":             Uncertain,
	"RequestTimeout":          Uncertain, // SDK
	"RequestTimeoutException": Uncertain, // SDK
}

// nameTaken matches AttachVolume's message that a device name is in use, which has no code of its own.
var nameTaken = regexp.MustCompile(`(?i)attachment point .* is already in use`)

// meaningOf returns the meaning of an answer.
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
		return Uncertain // the answer is not EC2's, but that of something in between
	case status == http.StatusTooManyRequests:
		return Throttled
	case status >= 400 && status < 500:
		return Invalid
	}
	return Uncertain
}

// translate turns an error of the SDK into an *Error.
func translate(op string, err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok || answer.ErrorCode() == codeUnknown {
		return &Error{Op: op, Meaning: Uncertain, Err: plain(err)}
	}
	code, status := answer.ErrorCode(), 0
	said := saying{text: secrets.ReplaceAllString(strings.TrimSpace(answer.ErrorMessage()), ""), err: err}
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status, said.request = response.HTTPStatusCode(), response.ServiceRequestID()
	}
	return &Error{Op: op, Code: code, Meaning: meaningOf(op, code, answer.ErrorMessage(), status), Err: said}
}

// saying is EC2's message, without what the SDK adds to it.
type saying struct {
	text, request string
	err           error
}

func (s saying) Error() string {
	if s.request == "" {
		return s.text
	}
	return fmt.Sprintf("%s (request %s)", s.text, s.request) // AWS support asks for the request's ID
}

func (s saying) Unwrap() error { return s.err }

// secrets matches the part of a message that repeats the request: for a wrong signature AWS shows what should have been
// signed, which includes the session's token.
var secrets = regexp.MustCompile(`(?is)\s*(the canonical string|the string-to-sign|x-amz-security-token|\n).*`)

// plain removes what the SDK adds to an error without an answer. It does not go deeper: below may be the error of
// another service, such as the one that provides the credentials, and the text must still name that service.
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

// unsent returns the error of a request that was not sent, because the credentials or the region could not be
// determined. That may be temporary, so its meaning is to try again.
func unsent(op string, err error) error {
	return &Error{Op: op, Meaning: NotNow, Err: fmt.Errorf("not sent: %w", plain(err))}
}

// senseless returns the error of a request that must not be sent.
func senseless(op, why string) error { return &Error{Op: op, Meaning: Invalid, Err: errors.New(why)} }
