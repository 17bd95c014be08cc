package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// callbacks of a server under test; nil ones answer that all is well.
type callbacks struct {
	live, ready func(context.Context) []Check
	status      func(context.Context) (any, error)
}

// serve runs a server until the test ends and returns its base URL.
func serve(t *testing.T, g prometheus.Gatherer, c callbacks) string {
	t.Helper()
	well := func(context.Context) []Check { return []Check{{Name: "ping"}} }
	if c.live == nil {
		c.live = well
	}
	if c.ready == nil {
		c.ready = well
	}
	if c.status == nil {
		c.status = func(context.Context) (any, error) { return nil, nil }
	}
	lg, bound := listening(t)
	s := NewServer(Config{Listen: "127.0.0.1:0"}, g, c.live, c.ready, c.status, lg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return "http://" + <-bound
}

// boundCore finds out where a server listens, from its log.
type boundCore struct {
	zapcore.Core
	bound chan string
}

func (c boundCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, c)
}

func (c boundCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message == "metrics server listened" || e.Message == "profiles are served" {
		c.bound <- fields[0].String
	}
	return c.Core.Write(e, fields)
}

// listening returns a logger for a server, and a channel with its address.
func listening(t *testing.T) (*zap.Logger, <-chan string) {
	bound := make(chan string, 1)
	return zaptest.NewLogger(t, zaptest.WrapOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return boundCore{c, bound}
	}))), bound
}

func do(t *testing.T, method, url string) (status int, body string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestServerAnswers(t *testing.T) {
	ours, etcds := prometheus.NewRegistry(), prometheus.NewRegistry()
	Collect(ours, func() (out Series) { out.Gauge("build_info", "Versions.", 1, "version", "1.2.3"); return out })
	leader := prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_server_has_leader", Help: "x"})
	etcds.MustRegister(leader)
	url := serve(t, prometheus.Gatherers{ours, etcds}, callbacks{
		live: func(context.Context) []Check {
			return []Check{{Name: "coordinator", Detail: "observed 1s ago"}, {Name: "disk"}}
		},
		ready: func(context.Context) []Check {
			return []Check{{Name: "volume", Detail: "slot a"}, {Name: "etcd", Err: errors.New("no leader\nsince 5s")}}
		},
		status: func(context.Context) (any, error) { return map[string]string{"state": "waiting"}, nil },
	})
	notReady := "[+]volume ok: slot a\n[-]etcd failed: no leader; since 5s\n"
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/livez", 200, "ok\n"},
		{"GET", "/livez?verbose", 200, "[+]coordinator ok: observed 1s ago\n[+]disk ok\n"},
		{"GET", "/readyz", 503, notReady},
		{"GET", "/readyz?verbose", 503, notReady},
		{"HEAD", "/readyz", 503, ""},
		{"GET", "/status", 200, "{\n  \"state\": \"waiting\"\n}\n"},
		{"POST", "/status", 405, "Method Not Allowed\n"},
		{"GET", "/", 404, "404 page not found\n"},
	} {
		status, body, h := do(t, tt.method, url+tt.path)
		if status != tt.status || body != tt.body {
			t.Errorf("%s %s: got %d %q, want %d %q", tt.method, tt.path, status, body, tt.status, tt.body)
		}
		if status == 200 && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be cached", tt.method, tt.path)
		}
	}
	status, body, _ := do(t, "GET", url+"/metrics")
	for _, want := range []string{"holdfast_build_info{version=\"1.2.3\"} 1\n", "etcd_server_has_leader 0\n"} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("/metrics: got %d without %q", status, want)
		}
	}
}

func TestStatusErrorIsJSON(t *testing.T) {
	for name, status := range map[string]func(context.Context) (any, error){
		"callback": func(context.Context) (any, error) { return nil, errors.New("boom") },
		"encoding": func(context.Context) (any, error) { return func() {}, nil },
	} {
		code, body, h := do(t, "GET", serve(t, prometheus.NewRegistry(), callbacks{status: status})+"/status")
		if code != 500 || !strings.HasPrefix(body, `{"error":"`) || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %q", name, code, body)
		}
	}
}

// A collector or callback that breaks must only affect its own answer.
func TestServerOutlivesBrokenCallbacks(t *testing.T) {
	reg := prometheus.NewRegistry()
	Collect(reg, func() (out Series) { out.Gauge("build_info", "Versions.", 1, "version", "1.2.3"); return out })
	reg.MustRegister(brokenCollector{})
	url := serve(t, reg, callbacks{live: func(context.Context) []Check { panic("boom") }})
	if res, err := http.Get(url + "/livez"); err == nil {
		t.Errorf("/livez of a panicking callback: got %s", res.Status)
		res.Body.Close()
	}
	if status, body, _ := do(t, "GET", url+"/metrics"); status != 200 || !strings.Contains(body, "holdfast_build_info{") {
		t.Errorf("/metrics beside a broken collector: got %d %q", status, body)
	}
	if status, _, _ := do(t, "GET", url+"/readyz"); status != 200 {
		t.Errorf("/readyz: got %d", status)
	}
}

type brokenCollector struct{}

var brokenDesc = prometheus.NewDesc("broken", "x", nil, nil)

func (brokenCollector) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(brokenDesc, errors.New("broken"))
}

func TestHangingCallbackIsAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the answer timeout")
	}
	hang := func(ctx context.Context) []Check {
		<-ctx.Done()
		<-t.Context().Done() // it ignores its own context, and only returns when the test is over
		return nil
	}
	url := serve(t, prometheus.NewRegistry(), callbacks{ready: hang})
	if status, body, _ := do(t, "GET", url+"/readyz"); status != 503 || !strings.HasPrefix(body, "no answer within") {
		t.Errorf("got %d %q", status, body)
	}
}

func TestSlowClientsAreCut(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the header timeout")
	}
	url := serve(t, prometheus.NewRegistry(), callbacks{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(4 * headerTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Error("the server still waits for the headers")
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestLargeHeadersAreRefused(t *testing.T) {
	url := serve(t, prometheus.NewRegistry(), callbacks{})
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 2*maxHeaderBytes))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", res.Status)
	}
}

func TestRunReportsWhatCannotBeBound(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for listen, want := range map[string]string{
		ln.Addr().String(): "bind metrics.listen: ",
		"":                 "metrics.listen: must not be empty",
	} {
		s := NewServer(Config{Listen: listen}, prometheus.NewRegistry(), nil, nil, nil, zaptest.NewLogger(t))
		if err := s.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Run on %q: got %v, want %q", listen, err, want)
		}
	}
}

func TestOffWaitsForTheEnd(t *testing.T) {
	lg, bound := listening(t)
	s := NewServer(Config{Listen: off}, prometheus.NewRegistry(), nil, nil, nil, lg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if len(bound) > 0 {
		t.Errorf("a server that is off has the address %s", <-bound)
	}
}

// A request that hangs must not delay the stop.
func TestStopDoesNotWaitForClients(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	lg, bound := listening(t)
	s := NewServer(Config{Listen: "127.0.0.1:0"}, prometheus.NewRegistry(), nil,
		func(context.Context) []Check { close(entered); <-release; return nil }, nil, lg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := net.Dial("tcp", <-bound)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(answerTimeout - time.Second): // when the request would end by itself
		t.Error("Run waits for an open request")
	}
	close(release)
}
