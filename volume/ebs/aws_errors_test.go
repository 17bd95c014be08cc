package ebs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var operations = []string{opVolumes, opInstances, opAttach, opDetach, opTag, opUntag, opCreate}

// decided is the table once more, by meaning, as the protocol expects it. A code whose meaning changes must be changed
// here too.
var decided = map[Meaning]string{
	InUse: "VolumeInUse",
	NotNow: "IncorrectState IncorrectInstanceState InvalidState InvalidInstanceState InsufficientVolumeCapacity " +
		"RequestExpired ExpiredToken ExpiredTokenException RequestTimeTooSkewed RequestInTheFuture InvalidSecurity.RequestHasExpired",
	NameTaken: "InvalidDevice.InUse",
	NoRoom:    "AttachmentLimitExceeded",
	Misplaced: "InvalidVolume.ZoneMismatch InvalidVolumeID.ZoneMismatch ZonesMismatched EncryptedVolumesNotSupported NonEBSInstance",
	NotFound:  "InvalidVolume.NotFound InvalidInstanceID.NotFound InvalidAttachment.NotFound InvalidAttachmentID.NotFound",
	Denied: "UnauthorizedOperation OptInRequired Blocked PendingVerification AccessDenied AccessDeniedException NotAuthorized " +
		"TagPolicyViolation CustomerKeyHasBeenRevoked InvalidKMSKey.InvalidState",
	Throttled: "RequestLimitExceeded ConcurrentTagAccess Throttling ThrottlingException ThrottledException RequestThrottled " +
		"RequestThrottledException EC2ThrottledException TooManyRequestsException BandwidthLimitExceeded SlowDown PriorRequestNotComplete",
	Invalid: "AuthFailure InvalidClientTokenId MissingAuthenticationToken IncompleteSignature SignatureDoesNotMatch " +
		"InvalidSignatureException UnrecognizedClientException InvalidAccessKeyId InvalidParameterValue DryRunOperation " +
		"OperationNotPermitted InvalidParameter InvalidParameterCombination InvalidParameterDependency InvalidID " +
		"InvalidInstanceID InvalidInstanceID.Malformed InvalidVolumeID.Malformed InvalidVolumeID.Duplicate InvalidBlockDeviceMapping " +
		"InvalidFilter FilterLimitExceeded InvalidMaxResults InvalidNextToken InvalidPaginationToken InvalidTagKey.Malformed " +
		"TagLimitExceeded ResourceCountExceeded RequestResourceCountExceeded ResourceCountLimitExceeded InvalidInput InvalidRequest " +
		"InvalidRegion InvalidResourceType.Unknown MissingInput InvalidFormat InvalidCharacter InvalidAction InvalidQueryParameter " +
		"MalformedQueryString MissingAction MissingParameter UnknownParameter UnsupportedProtocol ValidationError NoSuchVersion " +
		"IdempotentParameterMismatch InvalidZone.NotFound InvalidAvailabilityZone InvalidClientToken ResourceLimitExceeded " +
		"VolumeTypeNotAvailableInZone UnknownVolumeType VolumeLimitExceeded MaxIOPSLimitExceeded VolumeIOPSLimit InvalidInstanceAttributeValue",
	Uncertain: "InternalError InternalFailure ServiceUnavailable Unavailable RequestTimeout RequestTimeoutException",
}

func TestEveryCodeIsDecided(t *testing.T) {
	listed := map[string]bool{"UnsupportedOperation": true, "Unsupported": true} // see below
	for want, codes := range decided {
		for code := range strings.FieldsSeq(codes) {
			listed[code] = true
			for _, op := range operations {
				if got := meaningOf(op, code, "", http.StatusBadRequest); got != want {
					t.Errorf("%s of %s: got %q, want %q", code, op, got, want)
				}
			}
		}
	}
	for code := range meanings {
		if !listed[code] {
			t.Errorf("%s is in the table and not in this test", code)
		}
	}
	for _, m := range []Meaning{InUse, NotNow, NameTaken, NoRoom, Misplaced, NotFound, Denied, Throttled, Invalid, Uncertain} {
		if decided[m] == "" {
			t.Errorf("no code means %q", m)
		}
	}
}

func TestMeaningsThatDependOnMore(t *testing.T) {
	const inUse = "Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use"
	for _, test := range []struct {
		op, code, message string
		status            int
		want              Meaning
	}{
		{opAttach, "InvalidParameterValue", inUse, 400, NameTaken},
		{opAttach, "InvalidParameterValue", "Value (x) for parameter device is invalid", 400, Invalid},
		{opTag, "InvalidParameterValue", inUse, 400, Invalid},
		{opAttach, "UnsupportedOperation", "", 400, Misplaced},
		{opAttach, "Unsupported", "", 400, Misplaced},
		{opDetach, "UnsupportedOperation", "", 400, Invalid},
		{opDetach, "Unsupported", "", 400, Invalid},
		{opAttach, "NeverHeardOf", "", 400, Invalid},
		{opAttach, "NeverHeardOf", "", 403, Invalid},
		{opAttach, "NeverHeardOf", "", 429, Throttled},
		{opAttach, "NeverHeardOf", "", 500, Uncertain},
		{opAttach, "NeverHeardOf", "", 503, Uncertain},
		{opAttach, "NeverHeardOf", "", 0, Uncertain},
		{opAttach, "UnknownError", "", 400, Uncertain}, // without any code, the answer is not EC2's
		{opAttach, "", "", 403, Uncertain},
	} {
		if got := meaningOf(test.op, test.code, test.message, test.status); got != test.want {
			t.Errorf("%s: %s %d %q: got %q, want %q", test.op, test.code, test.status, test.message, got, test.want)
		}
	}
}

// Over HTTP: EC2's message reaches the operator with the request's ID and without the SDK's additions.
func TestErrorText(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 400, "VolumeInUse", "vol-1 is already attached to an instance")
	})
	err := f.client(nil).Attach(t.Context(), "vol-1", "i-1", "/dev/sdf")
	const want = "AttachVolume: VolumeInUse: vol-1 is already attached to an instance (request req-1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != "VolumeInUse" || e.Meaning != InUse || e.Op != opAttach {
		t.Errorf("got %#v", e)
	}
}

// For a wrong signature AWS repeats what should have been signed, which includes the session's token.
func TestErrorsKeepSecrets(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter, r *http.Request){
		"signature": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, 403, "SignatureDoesNotMatch", fmt.Sprintf("The request signature we calculated does not match the signature you provided.\n\n"+
				"The Canonical String for this request should have been\n'POST\n/\n\nx-amz-security-token:%s\n'", r.Header.Get("X-Amz-Security-Token")))
		},
		"one line": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, 403, "AuthFailure", "Not accepted: X-Amz-Security-Token="+r.Header.Get("X-Amz-Security-Token"))
		},
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no xml": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "token "+r.Header.Get("X-Amz-Security-Token"), 400)
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			seen := make(chan string, 1)
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Get("X-Amz-Security-Token")
				answer(w, r)
			})
			err := f.client(nil).Detach(t.Context(), "vol-1", "i-1")
			if got := <-seen; got != testToken {
				t.Fatalf("the request had the token %q, want %q: nothing is tested", got, testToken)
			}
			if text := fmt.Sprintf("%v %+v", err, err); err == nil || strings.Contains(text, testToken) || strings.Contains(text, testSecret) {
				t.Errorf("got %s", text)
			}
		})
	}
}
