package metrics

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"holdfast/invalid"
)

func TestProfilesOnlyForThisMachine(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:6060": true, "127.9.9.9:0": true, "[::1]:6060": true, "localhost:6060": true,
		"0.0.0.0:6060": false, ":6060": false, "[::]:6060": false, "10.0.0.5:6060": false, "example.org:6060": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:70000": false, "off": false,
	} {
		err := invalid.Join(Config{Pprof: address}.Validate)
		if (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), "metrics.pprof: must be ") {
			t.Errorf("%q: %v", address, err)
		}
		if !good {
			if err := Profile(t.Context(), address, zaptest.NewLogger(t)); err == nil {
				t.Errorf("%q: it was served", address)
			}
		}
	}
}

// The profiles are served at their own address, and not beside the metrics, which need no authentication.
func TestProfiles(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lg, bound := listening(t)
	done := make(chan error, 1)
	go func() { done <- Profile(ctx, "127.0.0.1:0", lg) }()
	base := "http://" + <-bound
	if runtime.MemProfileRate == 0 {
		t.Error("the heap is not profiled")
	}
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusOK, "/debug/pprof/goroutine?debug=1": http.StatusOK, "/debug/pprof/symbol": http.StatusOK,
		"/metrics": http.StatusNotFound, "/": http.StatusNotFound,
	} {
		if status, _, _ := do(t, http.MethodGet, base+path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	if status, _, _ := do(t, http.MethodPost, base+"/debug/pprof/profile"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", status)
	}
	server := serve(t, prometheus.NewRegistry(), callbacks{})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars"} {
		if status, _, _ := do(t, http.MethodGet, server+path); status != http.StatusNotFound {
			t.Errorf("the metrics server answers %s with %d", path, status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Profile: %v", err)
	}
}

// Without a configured address nothing is bound.
func TestNoProfiles(t *testing.T) {
	before := runtime.MemProfileRate
	t.Cleanup(func() { runtime.MemProfileRate = before })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Profile(ctx, "", zaptest.NewLogger(t)); err != nil {
		t.Error(err)
	}
	if before == 0 || runtime.MemProfileRate != 0 {
		t.Errorf("the heap is profiled each %d bytes, and was each %d; want 0 and more", runtime.MemProfileRate, before)
	}
}
