package gossip

import (
	"context"
	"errors"
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's own, except that a stream we open ends with its timeout and with ctx.
// memberlist sets no deadline when it sends a message, so a stopped peer could hold the sender for ever.
type transport struct {
	*memberlist.NetTransport
	dial func(address string, timeout time.Duration) (net.Conn, error)
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func listen(ctx context.Context, at netip.AddrPort, lg *log.Logger) (*transport, error) {
	conf := &memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().Unmap().String()},
		BindPort:  int(at.Port()),
		Logger:    lg,
	}
	tries := 1
	if at.Port() == 0 {
		tries = 10 // the port that TCP was given may be taken for UDP
	}
	var inner *memberlist.NetTransport
	var err error
	for range tries {
		if inner, err = memberlist.NewNetTransport(conf); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	dial := func(address string, timeout time.Duration) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return stream{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
	}
	return &transport{inner, dial}, nil
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.dial(address, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.dial(a.Addr, timeout)
}

// stream closes with the context it was dialled under.
type stream struct {
	net.Conn
	release func() bool
}

func (s stream) Close() error {
	s.release()
	return s.Conn.Close()
}
