package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

const (
	maxConnections = 64               // by TCP at once; more wait
	idle           = 10 * time.Second // that a connection may be silent, or slow to take an answer
)

// Server answers DNS questions by UDP and TCP.
type Server struct {
	packets  net.PacketConn
	listener net.Listener
	zone     atomic.Pointer[Zone]
	lg       *zap.Logger
}

// Listen binds at, an IP address and port, for both protocols; port 0 takes one that is free for both. Nothing is
// answered before Run.
func Listen(ctx context.Context, at string, lg *zap.Logger) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	packets, err := lc.ListenPacket(ctx, "udp", listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", errors.Join(err, listener.Close()))
	}
	return &Server{packets: packets, listener: netutil.LimitListener(listener, maxConnections), lg: lg}, nil
}

// Address is where the server listens.
func (s *Server) Address() netip.AddrPort { return s.packets.LocalAddr().(*net.UDPAddr).AddrPort() }

// Set replaces what is answered. Before the first call nothing is.
func (s *Server) Set(z *Zone) { s.zone.Store(z) }

// Run answers until ctx ends and returns nil then; an error means that a listener failed, and ends both: one without
// the other is no DNS server.
func (s *Server) Run(ctx context.Context) error {
	group, done := errgroup.WithContext(ctx)
	for _, d := range []*dns.Server{{PacketConn: s.packets, UDPSize: dns.MaxMsgSize}, {Listener: s.listener}} {
		started := make(chan struct{})
		d.Handler, d.NotifyStartedFunc = s, func() { close(started) }
		d.ReadTimeout, d.WriteTimeout, d.IdleTimeout = idle, idle, func() time.Duration { return idle }
		group.Go(d.ActivateAndServe)
		group.Go(func() error {
			<-started // or there is nothing to end
			<-done.Done()
			return d.Shutdown()
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return fmt.Errorf("answer DNS: %w", err)
	}
	return nil
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	z := s.zone.Load()
	if z == nil {
		return
	}
	_, tcp := w.RemoteAddr().(*net.TCPAddr)
	if err := w.WriteMsg(z.Answer(query, tcp)); err != nil {
		s.lg.Debug("answer not sent", zap.Stringer("to", w.RemoteAddr()), zap.Error(err))
	}
}
