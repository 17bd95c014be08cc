package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// upstreamTimeout bounds a question whose asker set no deadline. It is the most that the timeout option
// of resolv.conf allows, so it never ends what the asker still waits for.
const upstreamTimeout = 30 * time.Second

// forward asks the nameserver at address as it would have been asked without us: over UDP with the
// query as it is (so EDNS keeps its meaning), then over TCP if the reply did not fit; over TCP alone if
// TCP was dialled.
func forward(ctx context.Context, network, address string, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	if strings.HasPrefix(network, "udp") {
		reply, err := converse(ctx, network, address, query, overPackets)
		if err != nil || !truncated(reply) {
			return reply, err
		}
		network = "tcp" + strings.TrimPrefix(network, "udp")
	}
	return converse(ctx, network, address, query, overStream)
}

// converse has one conversation on a socket of its own, which ends with ctx.
func converse(ctx context.Context, network, address string, query []byte,
	talk func(net.Conn, []byte) ([]byte, error)) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// A deadline, not Close: so an end in time looks like one, a net.Error with Timeout.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return talk(conn, query)
}

// overPackets passes over packets that do not answer the query, as net.Resolver itself does: they may be
// forged, and the true one may still come.
func overPackets(conn net.Conn, query []byte) ([]byte, error) {
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, maxFrame)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		if answers(buf[:n], query) {
			return bytes.Clone(buf[:n]), nil
		}
	}
}

func overStream(conn net.Conn, query []byte) ([]byte, error) {
	frame := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, err
	}
	if !answers(reply, query) {
		return nil, fmt.Errorf("read reply of nameserver %s: it answers another question", conn.RemoteAddr())
	}
	return reply, nil
}

// answers reports whether reply belongs to query: same id and, where one can be read, same question.
func answers(reply, query []byte) bool {
	if len(reply) < 12 || len(query) < 2 || !bytes.Equal(reply[:2], query[:2]) || reply[2]&0x80 == 0 {
		return false
	}
	_, asked, ok := question(query)
	if !ok {
		return true
	}
	_, got, ok := question(reply)
	return ok && got.Type == asked.Type && got.Class == asked.Class &&
		strings.EqualFold(got.Name.String(), asked.Name.String())
}

// truncated reads the TC bit.
func truncated(reply []byte) bool { return reply[2]&0x02 != 0 }
