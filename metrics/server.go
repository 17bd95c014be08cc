package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// The limits of a connection and of all together. They are generous for a probe and a scraper.
const (
	headerTimeout  = 5 * time.Second  // to send the request line and headers
	readTimeout    = 10 * time.Second // to send the whole request
	answerTimeout  = 5 * time.Second  // for the callbacks behind one probe
	scrapeTimeout  = 20 * time.Second // to gather; above Prometheus' default of 10 s
	writeTimeout   = 30 * time.Second // to receive the answer; above scrapeTimeout
	idleTimeout    = 60 * time.Second // between requests of one connection
	stopTimeout    = 2 * time.Second  // for open requests while the server stops
	maxHeaderBytes = 16 << 10
	maxConnections = 128
	maxScrapes     = 4
)

// Server answers /metrics, /livez, /readyz and /status.
type Server struct {
	listen string
	http   http.Server
	lg     *zap.Logger
}

// NewServer returns a server that is not bound yet. g gathers everything for /metrics; live and ready return the lines
// of /livez and /readyz, and status returns the document of /status. The callbacks run concurrently and get a context
// that ends after 5 s. A client is answered then even if they have not returned.
func NewServer(cfg Config, g prometheus.Gatherer, live, ready func(context.Context) []Check,
	status func(context.Context) (any, error), lg *zap.Logger) *Server {
	s := &Server{listen: cfg.Listen, lg: lg}
	errorLog := zap.NewStdLog(lg)

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            errorLog,
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector must not hide the others
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	probe := func(path string, h http.HandlerFunc) {
		mux.Handle("GET "+path, http.TimeoutHandler(h, answerTimeout, "no answer within "+answerTimeout.String()+"\n"))
	}
	probe("/livez", func(w http.ResponseWriter, r *http.Request) {
		writeChecks(w, live(r.Context()), r.URL.Query().Has("verbose"))
	})
	probe("/readyz", func(w http.ResponseWriter, r *http.Request) {
		writeChecks(w, ready(r.Context()), r.URL.Query().Has("verbose"))
	})
	probe("/status", func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		document, err := status(r.Context())
		body := []byte(nil)
		if err == nil {
			body, err = json.MarshalIndent(document, "", "  ")
		}
		if err != nil {
			code = http.StatusInternalServerError
			body, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		write(w, "application/json", code, append(body, '\n'))
	})
	s.http = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
	}
	return s
}

// Run binds the configured address at once and serves until ctx is done; open requests then have 2 s to end. It returns
// an error if the address cannot be bound or the server stops accepting. A server that is off waits for ctx. Call Run
// once.
func (s *Server) Run(ctx context.Context) error {
	if s.listen == off {
		<-ctx.Done()
		return nil
	}
	if s.listen == "" { // net.Listen would take a random port, which nobody would find
		return errors.New("metrics.listen: must not be empty when the server starts")
	}
	ln, err := net.Listen("tcp", s.listen)
	if err != nil {
		hint := "does another node run on this address? each needs its own node.address or metrics.listen"
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			hint = "this machine does not have that address: set node.address, or metrics.listen"
		}
		return fmt.Errorf("bind metrics.listen: %w (%s)", err, hint)
	}
	s.lg.Info("metrics server listened", zap.String("address", ln.Addr().String()))

	served := make(chan error, 1)
	all := newConnLimit(ln, maxConnections)
	s.http.ConnState = all.observe
	go func() { served <- s.http.Serve(all) }()
	select {
	case err = <-served:
		return fmt.Errorf("serve metrics on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if s.http.Shutdown(stop) != nil {
		s.http.Close() // a client that does not read its answer must not delay the stop
	}
	<-served
	return nil
}

func write(w http.ResponseWriter, contentType string, status int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store") // a cached "ready" may be wrong
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client is gone: there is nobody to tell
}

// Check is one line of /livez and /readyz.
type Check struct {
	Name    string // short and stable, e.g. "etcd"
	Err     error  // nil if it passed
	Detail  string // shown if it passed
	Warning string // shown instead of Detail if it passed, but someone should look at it
}

// String returns "[+]name ok", "[+]name ok: detail", "[!]name warning: text" or "[-]name failed: reason", always on one
// line, so that grep can be used.
func (c Check) String() string {
	line := fmt.Sprintf("[+]%s ok: %s", c.Name, c.Detail)
	switch {
	case c.Err != nil:
		line = fmt.Sprintf("[-]%s failed: %v", c.Name, c.Err)
	case c.Warning != "":
		line = fmt.Sprintf("[!]%s warning: %s", c.Name, c.Warning)
	case c.Detail == "":
		line = fmt.Sprintf("[+]%s ok", c.Name)
	}
	return strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// writeChecks answers 200 if every check passed, otherwise 503. The lines are shown on request, and if a check failed:
// a failed probe in a log must show the reason.
func writeChecks(w http.ResponseWriter, checks []Check, verbose bool) {
	status := http.StatusOK
	var lines strings.Builder
	for _, c := range checks {
		if c.Err != nil {
			status = http.StatusServiceUnavailable
		}
		lines.WriteString(c.String() + "\n")
	}
	body := lines.String()
	if status == http.StatusOK && (!verbose || body == "") {
		body = "ok\n"
	}
	write(w, "text/plain; charset=utf-8", status, []byte(body))
}
