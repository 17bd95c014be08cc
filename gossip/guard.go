package gossip

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// What memberlist v0.7 does with what a node says, and what is therefore checked before it sees it:
//
//   - Compressed messages are accepted even with compression off, and grow to 40 MiB each; in packets they nest.
//   - A stream's header makes it reserve room for a million nodes or for 20 MiB before any of them has come (net.go).
//
// So it is handed only kinds of messages that holdfast sends, and of a stream only what has come as a whole. A message
// for the delegates begins with the node that its speaker speaks for: memberlist does not tell them who speaks.

// The first bytes of memberlist's messages (net.go).
const (
	typePing         = 0
	typeIndirectPing = 1
	typeAck          = 2
	typeSuspect      = 3
	typeAlive        = 4
	typeDead         = 5
	typePushPull     = 6
	typeCompound     = 7
	typeUser         = 8
	typeCompress     = 9
	typeNack         = 11
	typeCRC          = 12
	typeError        = 13
)

// Sizes of what a stream may tell.
const (
	maxStream    = 20 << 20                          // bytes; maxNodes states fit (wire.go)
	maxStranger  = 2 << 20                           // bytes from an address outside the mesh
	maxUserBytes = maxState + maxProof + 2*maxAround // a word with what is around it
	maxListed    = 16 * maxNodes                     // processes in a push/pull, with those that are gone
	maxListing   = 2 << 10                           // bytes of one of them: its name and Meta have less than 700
)

var (
	errCompressed = errors.New("its gossip is compressed, as that of no holdfast is")
	errHeader     = errors.New("its gossip announces or is more than a holdfast sends")
)

// stream is a connection for one message of memberlist's and the answer, each in a frame. What comes is checked before
// its first byte is handed on, within the reader's own deadline.
type stream struct {
	*peerConn
	limit   int    // bytes that may come
	closed  func() // hears of Close
	refused func(from string, err error)
	in      io.Reader // what has come
}

// Write is called once, with a whole message, as memberlist does.
func (s *stream) Write(msg []byte) (int, error) {
	if _, err := s.peerConn.Write(framed(msg)); err != nil {
		return 0, err
	}
	return len(msg), nil
}

// Read is called by one goroutine at a time, as memberlist does.
func (s *stream) Read(p []byte) (int, error) {
	if s.in == nil {
		msg, err := readFrame(s.Conn, s.limit)
		if err == nil {
			s.in, err = sift(msg, s.Node)
		} else if !hungUp(err) {
			err = s.papers.whyNot(err)
		}
		if err != nil {
			blame(s.refused, s.RemoteAddr().String(), err)
			return 0, err
		}
	}
	return s.in.Read(p)
}

func (s *stream) Close() error {
	s.closed()
	return s.Conn.Close()
}

// pushPull and userMessage are memberlist's headers of streams, and pushed is what it tells of one process.
type (
	pushPull struct {
		Nodes, UserStateLen int
		Join                bool
	}
	userMessage struct{ UserMsgLen int }
	pushed      struct {
		Name        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Incarnation uint32
		State       int
		Vsn         []uint8
	}
)

// sift returns a message that a node has sent over a stream as it is handed on: its header, the processes of a
// push/pull, its speaker, and what is for the delegates. It is written again so that memberlist's decoder need not
// agree with ours.
func sift(msg []byte, speaker string) (io.Reader, error) {
	if len(msg) == 0 {
		return nil, errHeader
	}
	var told []any
	var size *int // of what is for the delegates
	rest, limit, err := msg[1:], maxStream, error(nil)
	switch msg[0] {
	case typePing, typeAck, typeError:
		if len(msg) > maxAround {
			return nil, errHeader
		}
		return bytes.NewReader(msg), nil
	case typePushPull:
		var head pushPull
		head, err = read[pushPull](&rest, maxListing, nil)
		if head.Nodes < 0 || head.Nodes > maxListed {
			return nil, errHeader
		}
		told, size = append(told, &head), &head.UserStateLen
		for n := 0; err == nil && n < head.Nodes; n++ {
			var p pushed
			p, err = read[pushed](&rest, maxListing, nil)
			told = append(told, p)
		}
	case typeUser:
		var head userMessage
		head, err = read[userMessage](&rest, maxListing, nil)
		told, size, limit = append(told, &head), &head.UserMsgLen, maxUserBytes
	default:
		return nil, cmp.Or(checkKind(msg), errHeader)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHeader, err)
	}
	if *size != len(rest) || len(rest) > limit {
		return nil, errHeader
	}
	from := []byte{}
	if len(rest) > 0 {
		from = framed([]byte(speaker))
		*size += len(from)
	}
	out := bytes.NewBuffer([]byte{msg[0]})
	enc := codec.NewEncoder(out, msgpack)
	for _, v := range told {
		enc.MustEncode(v) // it is made of these types, and written to memory
	}
	return io.MultiReader(out, bytes.NewReader(from), bytes.NewReader(rest)), nil
}

// speakerOf reads which node the speaker of a message for the delegates speaks for.
func speakerOf(msg []byte) (node string, rest []byte, err error) {
	in := bytes.NewReader(msg)
	name, err := readFrame(in, len(msg))
	return string(name), msg[len(msg)-in.Len():], err
}

// checkKind returns why a message may not come in a packet. Messages for the delegates come over streams.
func checkKind(msg []byte) error {
	if len(msg) > 0 {
		switch msg[0] {
		case typePing, typeIndirectPing, typeAck, typeNack, typeSuspect, typeAlive, typeDead:
			return nil
		case typeCompress:
			return errCompressed
		}
	}
	return errHeader
}

// checkPacket returns why a packet is refused.
func checkPacket(body []byte) error {
	if len(body) >= 5 && body[0] == typeCRC {
		body = body[5:]
	}
	if len(body) <= 1 || body[0] != typeCompound {
		return checkKind(body)
	}
	n, rest := int(body[1]), body[2:]
	if len(rest) < 2*n {
		return nil // memberlist takes nothing of it
	}
	sizes, rest := rest[:2*n], rest[2*n:]
	for ; len(sizes) > 0; sizes = sizes[2:] { // memberlist never nests them
		size := int(binary.BigEndian.Uint16(sizes))
		if size > len(rest) {
			return nil // nor of what is cut short
		}
		if err := checkKind(rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}
