package discover

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

const (
	maxConnections = 64               // by TCP at once; more wait
	idle           = 10 * time.Second // that a connection may be silent, or slow to take an answer
	maxMessage     = 1<<16 - 1        // by TCP (RFC 1035)
)

// Server answers DNS questions by UDP and TCP.
type Server struct {
	packets  net.PacketConn
	listener net.Listener
	zone     atomic.Pointer[Zone]
	lg       *zap.Logger

	mu        sync.Mutex // guards what follows
	connected map[net.Conn]bool
	ended     bool
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

// Run answers until ctx ends and returns nil then; an error means that a listener failed.
func (s *Server) Run(ctx context.Context) error {
	var work sync.WaitGroup
	var failed [2]error
	work.Go(func() { failed[0] = s.servePackets() })
	work.Go(func() { failed[1] = s.serveStreams(&work) })
	stop := context.AfterFunc(ctx, s.close)
	work.Wait()
	if stop() {
		s.close()
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("answer DNS: %w", errors.Join(failed[:]...))
}

func (s *Server) close() {
	s.packets.Close()
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.connected {
		c.Close()
	}
}

func (s *Server) answer(packet []byte, limit int) ([]byte, bool) {
	z := s.zone.Load()
	if z == nil {
		return nil, false
	}
	return z.Answer(packet, limit)
}

// servePackets answers one by one: an answer takes microseconds.
func (s *Server) servePackets() error {
	defer s.listener.Close() // one without the other is no DNS server
	buffer := make([]byte, maxMessage)
	for {
		n, from, err := s.packets.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // of one packet, as an ICMP message about an earlier answer
		}
		if answer, ok := s.answer(buffer[:n], 0); ok {
			if _, err := s.packets.WriteTo(answer, from); err != nil {
				s.lg.Debug("answer not sent", zap.Stringer("to", from), zap.Error(err))
			}
		}
	}
}

func (s *Server) serveStreams(work *sync.WaitGroup) error {
	defer s.packets.Close()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // as without a free file descriptor
			time.Sleep(100 * time.Millisecond)
			continue
		}
		work.Go(func() {
			defer conn.Close()
			s.mu.Lock()
			s.connected[conn] = true
			ended := s.ended
			s.mu.Unlock()
			defer func() { s.mu.Lock(); delete(s.connected, conn); s.mu.Unlock() }()
			for !ended && s.exchange(conn) == nil {
			}
		})
	}
}

// exchange answers one question of a connection.
func (s *Server) exchange(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
		return err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	question := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return err
	}
	answer, ok := s.answer(question, maxMessage)
	if !ok {
		return errors.New("not a question")
	}
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}
