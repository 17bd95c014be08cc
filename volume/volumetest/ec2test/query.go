package ec2test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// apiError is an error in EC2's format.
type apiError struct{ Code, Message string }

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// statuses are the HTTP statuses of errors; any other error is the client's, 400.
var statuses = map[string]int{
	"AuthFailure":           http.StatusUnauthorized,
	"UnauthorizedOperation": http.StatusForbidden,
	"DryRunOperation":       http.StatusPreconditionFailed,
	"RequestLimitExceeded":  http.StatusServiceUnavailable,
	"Unavailable":           http.StatusServiceUnavailable,
	"ServiceUnavailable":    http.StatusServiceUnavailable,
	"InternalError":         http.StatusInternalServerError,
	"InternalFailure":       http.StatusInternalServerError,
}

// request is one call of the Query protocol.
type request struct {
	action string
	caller string
	form   url.Values
	faults effects
}

// ServeHTTP answers requests to EC2, to the metadata service, and to terminatePath.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/latest/"):
		c.IMDS("").ServeHTTP(w, r)
	case r.URL.Path == terminatePath && r.Method == http.MethodPost:
		c.serveTerminate(w, r)
	default:
		c.serveQuery(w, r)
	}
}

func (c *Cloud) serveQuery(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		answerError(w, &apiError{"MalformedQueryString", err.Error()})
		return
	}
	q := request{action: r.Form.Get("Action"), form: r.Form}
	key := accessKey(r)
	q.caller = c.caller(key, r.RemoteAddr)
	q.faults = c.faults.take(q.action, q.caller,
		append(q.list("VolumeId"), append(q.list("ResourceId"), q.form.Get("VolumeId"))...))
	c.record.call(Call{Action: q.action, Caller: q.caller, Force: r.Form.Get("Force") == "true"})
	c.options.Log("%s by %s: %s", q.action, q.caller, q.parameters())

	switch {
	case q.faults.has(LoseRequest):
		hangUp()
	case q.faults.has(Late):
		c.later(q.faults.delay(Late), func() {
			_, err := c.execute(q)
			c.options.Log("%s by %s, late: %v", q.action, q.caller, err)
		})
		hangUp()
	}
	if key == "" {
		answerError(w, &apiError{"AuthFailure", "AWS was not able to validate the provided access credentials"})
		return
	}
	body, err := c.execute(q)
	switch {
	case q.faults.has(LoseResponse):
		hangUp()
	case err != nil:
		c.options.Log("%s by %s: %v", q.action, q.caller, err)
		answerError(w, err)
	default:
		answer(w, q.action, body)
	}
}

// execute executes a request, if it is allowed.
func (c *Cloud) execute(q request) (response, error) {
	do := actions[q.action]
	if do == nil {
		return nil, &apiError{"InvalidAction", fmt.Sprintf("The action %s is not valid for this web service.", q.action)}
	}
	if v := q.form.Get("Version"); v != "2016-11-15" {
		return nil, &apiError{"NoSuchVersion", fmt.Sprintf("The version %q is not known", v)}
	}
	if err := q.faults.refusal(); err != nil {
		return nil, err
	}
	if c.foreign(q) {
		return nil, errDenied
	}
	if q.form.Get("DryRun") == "true" {
		return nil, &apiError{"DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	return do(c, q)
}

// foreign reports whether an instance tries to change the attachment of another instance or another cluster's volume,
// and may not. A request that names no instance is about the instance in the attachment.
func (c *Cloud) foreign(q request) bool {
	if _, known := c.Instance(q.caller); !known || q.action != "AttachVolume" && q.action != "DetachVolume" {
		return false
	}
	v, _ := c.Volume(q.form.Get("VolumeId"))
	for key, value := range c.options.OwnTags {
		if v.Tags[key] != value {
			return true
		}
	}
	at := q.form.Get("InstanceId")
	if at == "" && len(v.Attachments) > 0 {
		at = v.Attachments[0].Instance
	}
	return c.options.OwnOnly && at != q.caller
}

// hangUp closes the connection without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

// list returns the values of Name.1, Name.2, ….
func (q request) list(name string) []string {
	var all []string
	for n := 1; q.form.Has(name + "." + strconv.Itoa(n)); n++ {
		all = append(all, q.form.Get(name+"."+strconv.Itoa(n)))
	}
	return all
}

// parameters formats the request for people.
func (q request) parameters() string {
	form := url.Values{}
	for k, v := range q.form {
		if k != "Action" && k != "Version" {
			form[k] = v
		}
	}
	s, _ := url.QueryUnescape(form.Encode())
	return s
}

// required returns a parameter that must be present.
func (q request) required(name string) (string, error) {
	if v := q.form.Get(name); v != "" {
		return v, nil
	}
	return "", &apiError{"MissingParameter", fmt.Sprintf("The request must contain the parameter %s", name)}
}

var credential = regexp.MustCompile(`Credential=([^/,\s]+)/`)

func accessKey(r *http.Request) string {
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		return m[1]
	}
	return ""
}

// AccessKey returns the access key that the metadata service gives to an instance.
func AccessKey(instance string) string {
	return "ASIA" + strings.ToUpper(strings.NewReplacer("i-", "", "-", "").Replace(instance))
}

// caller returns who makes a request.
func (c *Cloud) caller(key, remote string) string {
	host, _, _ := net.SplitHostPort(remote)
	byIP := ""
	for id, i := range c.State().Instances {
		if key != "" && AccessKey(id) == key {
			return id
		}
		// An address may be reused after its instance has ended.
		if i.PrivateIP == host && i.State != terminated {
			byIP = id
		}
	}
	switch {
	case byIP != "":
		return byIP
	case key != "":
		return key
	}
	return host
}

// response is the content of an answer.
type response interface{ number(id string) }

type head struct {
	RequestID string `xml:"requestId"`
}

func (h *head) number(id string) { h.RequestID = id }

func answer(w http.ResponseWriter, action string, body response) {
	body.number(uuid.NewString())
	write(w, http.StatusOK, body, xml.StartElement{
		Name: xml.Name{Local: action + "Response"},
		Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: "http://ec2.amazonaws.com/doc/2016-11-15/"}},
	})
}

func answerError(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		e = &apiError{"InternalError", err.Error()}
	}
	status, known := statuses[e.Code]
	if !known {
		status = http.StatusBadRequest
	}
	write(w, status, struct {
		Code      string `xml:"Errors>Error>Code"`
		Message   string `xml:"Errors>Error>Message"`
		RequestID string `xml:"RequestID"`
	}{e.Code, e.Message, uuid.NewString()}, xml.StartElement{Name: xml.Name{Local: "Response"}})
}

func write(w http.ResponseWriter, status int, content any, root xml.StartElement) {
	var text bytes.Buffer
	text.WriteString(xml.Header)
	if err := xml.NewEncoder(&text).EncodeElement(content, root); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}
