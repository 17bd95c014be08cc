package ebs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

const (
	testSecret = "wJalrXUtnFEMI-SECRET"
	testToken  = "IQoJb3JpZ2luX2-TOKEN"
)

// fake is an EC2 endpoint whose answers a test sets.
type fake struct {
	t      *testing.T
	URL    string
	answer func(w http.ResponseWriter, r *http.Request)

	mu    sync.Mutex
	forms []map[string]string // of the requests, in order
}

func newFake(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *fake {
	t.Helper()
	f := &fake{t: t, answer: answer}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		f.t.Errorf("parse the form: %v", err)
	}
	form := map[string]string{}
	for k := range r.Form {
		form[k] = r.Form.Get(k)
	}
	f.mu.Lock()
	f.forms = append(f.forms, form)
	f.mu.Unlock()
	f.answer(w, r)
}

// requests returns the requests of an action.
func (f *fake) requests(action string) []map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []map[string]string
	for _, form := range f.forms {
		if form["Action"] == action {
			all = append(all, form)
		}
	}
	return all
}

// environment isolates a test from this machine's AWS configuration.
func environment(t *testing.T) {
	t.Helper()
	none := t.TempDir() + "/none"
	for key, value := range map[string]string{
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": testSecret, "AWS_SESSION_TOKEN": testToken,
		"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_EC2": "",
		"HTTP_PROXY": "", "HTTPS_PROXY": "", "http_proxy": "", "https_proxy": "",
	} {
		t.Setenv(key, value)
	}
}

func newTestEC2(t *testing.T, cfg Config, reg prometheus.Registerer) *EC2 {
	t.Helper()
	environment(t)
	e, err := NewEC2(t.Context(), cfg, reg, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	if err != nil {
		t.Fatalf("NewEC2: %v", err)
	}
	e.backoff = func(int) time.Duration { return time.Millisecond }
	e.poll = time.Millisecond
	return e
}

func (f *fake) client(reg prometheus.Registerer) *EC2 {
	f.t.Helper()
	return newTestEC2(f.t, Config{Region: "eu-test-1", Endpoint: f.URL}, reg)
}

// refuse answers with an error of EC2.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>req-1</RequestID></Response>`, code, message)
}

// accept answers any operation.
func accept(w http.ResponseWriter, r *http.Request, body string) {
	fmt.Fprintf(w, `<?xml version="1.0"?><%[1]sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>req-1</requestId>%[2]s</%[1]sResponse>`, r.Form.Get("Action"), body)
}

func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// changing are the calls that change something.
var changing = map[string]func(context.Context, *EC2) error{
	opAttach: func(ctx context.Context, e *EC2) error { return e.Attach(ctx, "vol-1", "i-1", "/dev/sdf") },
	opDetach: func(ctx context.Context, e *EC2) error { return e.Detach(ctx, "vol-1", "i-1") },
	opTag:    func(ctx context.Context, e *EC2) error { return e.Tag(ctx, "vol-1", map[string]string{"k": "v"}) },
	opUntag:  func(ctx context.Context, e *EC2) error { return e.Untag(ctx, "vol-1", "k", "v") },
}

// If a change was executed and is sent again, it fails because of itself. So it is sent once, whatever goes wrong.
func TestChangeIsSentOnce(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) }) // before the servers are closed, which wait for their handlers
	faults := map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		code   string
	}{
		"500": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "InternalError", "oops") }, "InternalError"},
		"503": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "Unavailable", "oops") }, "Unavailable"},
		"502 of others": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway", http.StatusBadGateway)
		}, ""},
		"closed": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ""},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "<AttachVolumeResponse>")
		}, ""},
		"hang": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		}, ""},
	}
	for name, fault := range faults {
		for op, call := range changing {
			t.Run(op+" "+name, func(t *testing.T) {
				if name == "cut" && op != opAttach {
					t.Skip("the SDK does not read an answer that says nothing")
				}
				f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Form.Get("Action") == opVolumes {
						accept(w, r, "")
						return
					}
					fault.answer(w, r)
				})
				e := f.client(nil)
				e.limit = 200 * time.Millisecond
				// The connection was used before: net/http repeats some requests on a kept connection.
				if _, err := e.Volumes(t.Context(), Query{IDs: []string{"vol-1"}}); err != nil {
					t.Fatalf("Volumes: %v", err)
				}
				err := call(t.Context(), e)
				var got *Error
				if !errors.As(err, &got) || got.Meaning != Uncertain || got.Code != fault.code || got.Op != op {
					t.Errorf("got error %#v (%v), want %s with code %q that is uncertain", got, err, op, fault.code)
				}
				if n := len(f.requests(op)); n != 1 {
					t.Errorf("got %d requests, want 1", n)
				}
			})
		}
	}
}

func TestThrottledChangeIsRepeated(t *testing.T) {
	for op, call := range changing {
		t.Run(op, func(t *testing.T) {
			var n atomic.Int32
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) < 3 {
					refuse(w, 503, "RequestLimitExceeded", "Request limit exceeded.")
					return
				}
				accept(w, r, "<return>true</return>")
			})
			reg := prometheus.NewRegistry()
			e := f.client(reg)
			if err := call(t.Context(), e); err != nil {
				t.Fatalf("got %v, want no error after two refusals", err)
			}
			for code, want := range map[string]float64{"RequestLimitExceeded": 2, "ok": 1} {
				if got := valueOf(t, e.series.requests.WithLabelValues(op, code)); got != want {
					t.Errorf("requests_total{operation=%q,code=%q}: got %v, want %v", op, code, got, want)
				}
			}
		})
	}
}

func TestThrottledForGood(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 503, "RequestLimitExceeded", "Request limit exceeded.")
	})
	e := f.client(nil)
	err := e.Attach(t.Context(), "vol-1", "i-1", "/dev/sdf")
	if got := MeaningOf(err); got != Throttled {
		t.Errorf("got %q (%v), want %q", got, err, Throttled)
	}
	if got, want := len(f.requests(opAttach)), throttleTries+1; got != want {
		t.Errorf("got %d requests, want %d", got, want)
	}

	// Stopped while it waits, it still knows that nothing was executed.
	e.backoff = func(int) time.Duration { return time.Hour }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := MeaningOf(e.Attach(ctx, "vol-1", "i-1", "/dev/sdf")); got != Throttled {
		t.Errorf("after a cancel: got %q, want %q", got, Throttled)
	}
}

func TestThrottleBackoffGrowsAndSpreads(t *testing.T) {
	for try := range throttleTries {
		mean := throttlePause << try
		seen := map[time.Duration]bool{}
		for range 50 {
			d := throttleBackoff(try)
			if d < mean/2 || d > mean*3/2 {
				t.Fatalf("try %d: got %s, want %s to %s", try, d, mean/2, mean*3/2)
			}
			seen[d] = true
		}
		if len(seen) < 10 {
			t.Errorf("try %d: got %d different pauses of 50", try, len(seen))
		}
	}
}

func TestReadIsRepeated(t *testing.T) {
	var n atomic.Int32
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			refuse(w, 500, "InternalError", "oops")
		case 2:
			panic(http.ErrAbortHandler)
		default:
			accept(w, r, "<volumeSet><item><volumeId>vol-1</volumeId></item></volumeSet>")
		}
	})
	reg := prometheus.NewRegistry()
	e := f.client(reg)
	got, err := e.Volumes(t.Context(), Query{IDs: []string{"vol-1"}})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v, want one volume", got, err)
	}
	for code, want := range map[string]float64{"InternalError": 1, "none": 1, "ok": 1} {
		if got := valueOf(t, e.series.requests.WithLabelValues(opVolumes, code)); got != want {
			t.Errorf("requests_total{code=%q}: got %v, want %v", code, got, want)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "holdfast_ec2_request_duration_seconds" && f.GetMetric()[0].GetHistogram().GetSampleCount() == 3 {
			return
		}
	}
	t.Errorf("got %v, want three durations", families)
}

func TestReadGivesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("backs off for some seconds")
	}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "Unavailable", "down") })
	_, err := f.client(nil).Instances(t.Context(), []string{"i-1"})
	if got := MeaningOf(err); got != Uncertain {
		t.Errorf("got %q (%v), want %q", got, err, Uncertain)
	}
	if got := len(f.requests(opInstances)); got != readAttempts {
		t.Errorf("got %d requests, want %d", got, readAttempts)
	}
	if !strings.HasPrefix(err.Error(), "DescribeInstances: Unavailable: down") {
		t.Errorf("got %q", err)
	}
}

// The limit of an attempt must be the HTTP client's: a limit of the context would end the whole read.
func TestAttemptsAreLimited(t *testing.T) {
	e := newTestEC2(t, Config{Region: "eu-test-1"}, nil)
	c := ec2.New(ec2.Options{}, e.configure)
	h, ok := c.Options().HTTPClient.(*awshttp.BuildableClient)
	if !ok || h.GetTimeout() != readAttempt {
		t.Errorf("got %T, want the SDK's with a timeout of %s", c.Options().HTTPClient, readAttempt)
	}
	if e.limit != changeWithin {
		t.Errorf("got %s for a change, want %s", e.limit, changeWithin)
	}
}

// Stopping the node must not wait for EC2, neither for an answer nor between attempts.
func TestCancelIsPrompt(t *testing.T) {
	const soon = 2 * time.Second
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	answers := map[string]func(w http.ResponseWriter, r *http.Request){
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
		"throttled": func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "RequestLimitExceeded", "slow down") },
	}
	for name, answer := range answers {
		calls := map[string]func(context.Context, *EC2) error{
			opVolumes: func(ctx context.Context, e *EC2) error {
				_, err := e.Volumes(ctx, Query{IDs: []string{"vol-1"}})
				return err
			},
			opAttach: changing[opAttach],
		}
		for op, call := range calls {
			t.Run(op+" "+name, func(t *testing.T) {
				f := newFake(t, answer)
				e := f.client(nil)
				e.backoff = throttleBackoff
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan error, 1)
				go func() { result <- call(ctx, e) }()
				for deadline := time.Now().Add(5 * time.Second); len(f.requests(op)) == 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				cancel()
				start := time.Now()
				err := <-result
				if err == nil || time.Since(start) > soon {
					t.Errorf("got %v after %s, want an error within %s", err, time.Since(start), soon)
				}
				if name == "no answer" && (!errors.Is(err, context.Canceled) || MeaningOf(err) != Uncertain) {
					t.Errorf("got %v (%s), want a canceled context, uncertain", err, MeaningOf(err))
				}
			})
		}
	}
}

// A request that failed before it was sent, here without credentials, was certainly not executed.
func TestUnsentIsCertain(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { accept(w, r, "") })
	e := newTestEC2(t, Config{Region: "eu-test-1", Endpoint: f.URL}, nil)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	e, err := NewEC2(t.Context(), e.cfg, nil, zap.NewNop())
	if err != nil {
		t.Fatalf("NewEC2: %v", err)
	}
	for op, call := range changing {
		err := call(t.Context(), e)
		if got := MeaningOf(err); got != NotNow || !strings.Contains(err.Error(), "credentials") {
			t.Errorf("%s: got %q (%v), want %q that speaks of credentials", op, got, err, NotNow)
		}
		if n := len(f.requests(op)); n != 0 {
			t.Errorf("%s: got %d requests, want 0", op, n)
		}
	}
}

func TestUnknownCodesAreOneSeries(t *testing.T) {
	var n atomic.Int32
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 400, fmt.Sprintf("Surprise%d", n.Add(1)), "!")
	})
	e := f.client(prometheus.NewRegistry())
	for range 3 {
		if got := MeaningOf(e.Detach(t.Context(), "vol-1", "i-1")); got != Invalid {
			t.Errorf("got %q, want %q", got, Invalid)
		}
	}
	if got := valueOf(t, e.series.requests.WithLabelValues(opDetach, codeOther)); got != 3 {
		t.Errorf("requests_total{code=other}: got %v, want 3", got)
	}
}
