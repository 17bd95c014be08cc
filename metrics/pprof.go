package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

// The bounds of the profiler, where they differ from the server's.
const (
	profileTimeout = 5 * time.Minute // to take a profile and to receive it
	maxProfilers   = 8               // connections
)

const mustBePrivate = `must be host:port with a loopback address such as 127.0.0.1:6060, or "" for none, got %q`

// private reports whether only this machine can reach an address for profiles.
func private(address string) bool {
	if address == "" {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Profile serves Go's profiles of this process below /debug/pprof/ at a separate address, until ctx is done. address is
// as in Config.Pprof; with "" it serves nothing, and turns off the heap profile. It is an error if the address cannot
// be bound or is not a loopback address: a profile reveals what the process does, and taking one costs it time.
func Profile(ctx context.Context, address string, lg *zap.Logger) error {
	if address == "" {
		runtime.MemProfileRate = 0 // nobody can ask for the heap profile, which takes 1 to 2 MB
		<-ctx.Done()
		return nil
	}
	if !private(address) {
		return fmt.Errorf("metrics.pprof: "+mustBePrivate, address)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // and each profile by its name
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: profileTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(lg),
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("bind metrics.pprof: %w", err)
	}
	lg.Info("profiles are served", zap.String("address", l.Addr().String()))
	stop := context.AfterFunc(ctx, func() { server.Close() }) // without waiting for a profile in progress
	defer stop()
	if err := server.Serve(netutil.LimitListener(l, maxProfilers)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve profiles on %s: %w", address, err)
	}
	return nil
}
