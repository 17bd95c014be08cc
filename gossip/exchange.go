package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"time"

	"github.com/miekg/dns"
)

// exchange is net.Resolver's connection to a nameserver. A query that is for us is answered here. The first one that is
// not has the nameserver dialled, and passes unchanged, as do the replies: net.Resolver itself sees to those that are
// forged, lost or truncated. It writes each query at once, over TCP behind its length in two bytes.
type exchange struct {
	net.Conn // to the nameserver; nil before it is needed
	dial     func() (net.Conn, error)
	deadline time.Time
	tcp      bool
	local    func(query []byte, limit int) (reply []byte, ok bool)
	reply    bytes.Buffer // ours
}

func (e *exchange) Write(p []byte) (int, error) {
	query, limit := p, dns.MinMsgSize // which everybody takes over UDP
	if e.tcp {
		query, limit = p[min(2, len(p)):], dns.MaxMsgSize
	}
	if reply, ok := e.local(query, limit); ok {
		if e.tcp {
			e.reply.Write(binary.BigEndian.AppendUint16(nil, uint16(len(reply))))
		}
		e.reply.Write(reply)
		return len(p), nil
	}
	if e.Conn == nil {
		conn, err := e.dial()
		if err != nil {
			return 0, err
		}
		e.Conn = conn
		if err := conn.SetDeadline(e.deadline); err != nil {
			return 0, err
		}
	}
	return e.Conn.Write(p)
}

func (e *exchange) Read(p []byte) (int, error) {
	if e.Conn == nil || e.reply.Len() > 0 {
		return e.reply.Read(p)
	}
	return e.Conn.Read(p)
}

// SetDeadline is for what is dialled after it: net.Resolver sets it first.
func (e *exchange) SetDeadline(t time.Time) error {
	e.deadline = t
	return nil
}

func (e *exchange) Close() error {
	if e.Conn == nil {
		return nil
	}
	return e.Conn.Close()
}

// packets is an exchange over UDP, which net.Resolver knows from these methods. It calls neither.
type packets struct{ *exchange }

func (packets) ReadFrom([]byte) (int, net.Addr, error) { return 0, nil, errors.ErrUnsupported }

func (packets) WriteTo([]byte, net.Addr) (int, error) { return 0, errors.ErrUnsupported }
