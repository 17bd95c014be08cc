package gossip

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// What memberlist v0.7 does with unauthenticated bytes, and what is therefore checked before it sees them:
//
//   - The first byte behind the label says whether a message is padded (0) or not (1). It is not authenticated, and the
//     padding is removed without a check of its length: one recorded message, replayed with the other byte, makes the
//     process panic (security.go, pkcs7decode).
//   - Compressed messages are accepted even with compression off, and grow to 40 MiB each; in packets they nest.
//   - A stream's header makes it reserve room for a million nodes or for 20 MiB before any of them has come (net.go).
//
// So it is handed only kinds of messages that holdfast sends, and of a stream only what has come as a whole. With TLS a
// message for the delegates begins with the node that its speaker speaks for: memberlist does not tell them who speaks.

// The first bytes of memberlist's messages, and its label (net.go, label.go).
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
	typeEncrypt      = 10
	typeNack         = 11
	typeCRC          = 12
	typeError        = 13
	typeLabel        = 244

	unpadded = 1 // the encryption that memberlist itself uses
)

// Sizes of what a stream may announce.
const (
	maxStream    = 20 << 20                          // bytes; maxNodes states fit (wire.go)
	maxStranger  = 2 << 20                           // bytes from an address outside the mesh
	maxUserBytes = maxState + maxProof + 2*maxAround // a word with what is around it
	maxListed    = 16 * maxNodes                     // processes in a push/pull, with those that are gone
	maxListing   = 2 << 10                           // bytes of one of them: its name and Meta have less than 700
)

var (
	errPadding = errors.New("its gossip packets are not readable with our keys (encrypted as no holdfast does: " +
		"sent again, and altered?)")
	errCompressed = errors.New("its gossip is compressed, as that of no holdfast is")
	errHeader     = errors.New("its gossip announces or is more than a holdfast sends")
)

// reasonOf is the label of what was refused in holdfast_gossip_rejected_total.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errVersion):
		return reasonVersion
	case errors.Is(err, errPadding), errors.Is(err, errKeys):
		return reasonKey
	case errors.Is(err, errCluster):
		return reasonCluster
	case errors.Is(err, errStreams), errors.Is(err, errObservers), errors.Is(err, errBusy):
		return reasonFull
	case errors.Is(err, errCertificate), errors.Is(err, errRefusesUs), errors.Is(err, errSpeaks), errors.Is(err, errProof):
		return reasonCertificate
	}
	return reasonUnreadable
}

// stream is a connection for a message of memberlist's and the answer. What comes is checked before its first byte is
// handed on, within the reader's own deadline, and ends after left bytes.
type stream struct {
	net.Conn
	rules
	from    Speaker // without TLS nobody knows who speaks
	label   []byte  // none is due in the answer on a stream that we opened
	closed  func()  // hears of Close
	read    *bufio.Reader
	left    int
	checked bool
	wrong   error
}

// stream guards a connection on which a label is due, and at most limit bytes behind it.
func (r rules) stream(conn net.Conn, from Speaker, label []byte, limit int, closed func()) *stream {
	return &stream{Conn: conn, rules: r, from: from, label: label, closed: closed,
		read: bufio.NewReaderSize(conn, 1<<10), left: limit + 1<<10} // what is around the message
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.closed()
	return s.Conn.Close()
}

// Read is called by one goroutine at a time, as memberlist does.
func (s *stream) Read(p []byte) (n int, err error) {
	if !s.checked {
		s.wrong, s.checked = s.check(), true
	}
	err = s.wrong
	switch {
	case err != nil:
	case s.left <= 0:
		err = errHeader
	default:
		n, err = s.read.Read(p[:min(len(p), s.left)])
		s.left -= n
	}
	if _, over := s.Conn.(*tls.Conn); over && err != nil && !errors.Is(err, io.EOF) {
		err = s.papers.whyNot(err)
	}
	return n, err
}

// check looks at the beginning. A stream that ends there, or has another label, is memberlist's to judge.
func (s *stream) check() error {
	n := len(s.label)
	begin, _ := s.read.Peek(n + 1)
	if len(begin) <= n || !bytes.HasPrefix(begin, s.label) {
		return nil
	}
	switch kind := begin[n]; {
	case kind == typeEncrypt && s.keyed:
		size := 4
		begin, _ = s.read.Peek(n + 1 + size + 1)
		if len(begin) <= n+1+size {
			return nil
		}
		if begin[n+1+size] != unpadded {
			return errPadding
		}
		if int(binary.BigEndian.Uint32(begin[n+1:])) > s.left {
			return errHeader
		}
	case s.keyed || kind == typeEncrypt:
		// One side has no key: memberlist says so. An error in the clear has nothing that could be large.
	case kind == typeCompress:
		return errCompressed
	case kind == typePushPull:
		var head struct {
			Nodes, UserStateLen int
			Join                bool
		}
		return s.sift(&head, &head.Nodes, &head.UserStateLen, maxStream)
	case kind == typeUser:
		var head struct{ UserMsgLen int }
		return s.sift(&head, new(int), &head.UserMsgLen, maxUserBytes)
	case kind == typePing, kind == typeAck, kind == typeError:
		s.left = 4 << 10
	}
	return nil
}

// pushed is what memberlist tells of a process in a push/pull (pushNodeState there).
type pushed struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       int
	Vsn         []uint8
}

// sifted is the size in bytes of the pieces in which sift keeps a message.
const sifted = 64 << 10

// sift reads a message and writes it again, to be read from now on: its header, which says how many processes follow
// and how many bytes for the delegates, at most limit; the processes; its speaker, and what is for the delegates. It
// takes room only when it has come. It is written again so that memberlist's decoder need not agree with ours.
func (s *stream) sift(head any, processes, size *int, limit int) error {
	var out bytes.Buffer
	if _, err := io.CopyN(&out, s.read, int64(len(s.label)+1)); err != nil {
		return err
	}
	in := newValues(s.read, s.left)
	if err := in.next(head); err != nil {
		return err
	}
	if *processes < 0 || *processes > maxListed {
		return errHeader
	}
	told := []any{head}
	for range *processes {
		var p pushed
		if err := in.next(&p); err != nil {
			return err
		}
		told = append(told, p)
	}
	n := *size
	if n < 0 || n > min(limit, in.rest) {
		return errHeader
	}
	var speaker []byte
	if n > 0 && s.from != (Speaker{}) {
		speaker = framed([]byte(s.from.Node))
	}
	*size += len(speaker)
	enc := codec.NewEncoder(&out, msgpack)
	for _, v := range told {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	out.Write(speaker)
	s.left = out.Len() + n + 1 // its end is read, too
	pieces := []io.Reader{&out}
	for n > 0 { // a buffer that grows would allocate several times as much
		var piece bytes.Buffer
		piece.Grow(min(n, sifted) + bytes.MinRead)
		read, err := io.CopyN(&piece, s.read, int64(min(n, sifted)))
		if err != nil {
			return err
		}
		pieces, n = append(pieces, &piece), n-int(read)
	}
	s.read = bufio.NewReader(io.MultiReader(pieces...))
	return nil
}

// speakerOf reads which node the speaker of a message for the delegates speaks for.
func speakerOf(msg []byte) (from Speaker, rest []byte, err error) {
	in := bytes.NewReader(msg)
	name, err := readFrame(in, len(msg))
	if err != nil {
		return from, nil, errHeader
	}
	return Speaker{RoleNode, string(name)}, msg[len(msg)-in.Len():], nil
}

// values reads memberlist's values from a stream. What a decoder holds of a value grows in steps, so that one of
// megabytes would cost many times as much.
type values struct {
	from *bufio.Reader
	dec  *codec.Decoder
	rest int   // bytes that may still come
	left int   // of them those of the present value
	err  error // how the stream has ended
}

func newValues(from *bufio.Reader, limit int) *values {
	v := &values{from: from, rest: limit}
	v.dec = codec.NewDecoder(v, msgpack)
	return v
}

// next reads one value. The error is that of the stream if it ended.
func (v *values) next(value any) error {
	v.left = min(v.rest, maxListing)
	err := v.dec.Decode(value)
	switch {
	case err == nil:
		return nil
	case v.err != nil:
		return v.err
	}
	return fmt.Errorf("%w: %w", errHeader, err)
}

// Read implements io.Reader for the decoder.
func (v *values) Read(p []byte) (n int, err error) {
	if v.left <= 0 {
		return 0, io.EOF
	}
	n, v.err = v.from.Read(p[:min(len(p), v.left)])
	v.left, v.rest = v.left-n, v.rest-n
	return n, v.err
}

// checkPacket returns why a message in a packet is refused. Messages for the delegates come over streams.
func checkPacket(msg []byte) error {
	if len(msg) == 0 {
		return errHeader
	}
	switch msg[0] {
	case typePing, typeIndirectPing, typeAck, typeNack, typeSuspect, typeAlive, typeDead:
		return nil
	case typeCompress:
		return errCompressed
	}
	return errHeader
}

// packet returns why a packet, with its label, is refused.
func (r rules) packet(packet []byte) error {
	body, ours := bytes.CutPrefix(packet, r.head())
	switch {
	case !ours:
		return nil // memberlist says so
	case r.keyed && len(body) > 0 && body[0] != unpadded:
		return errPadding
	case r.keyed:
		return nil
	}
	if len(body) >= 5 && body[0] == typeCRC {
		body = body[5:]
	}
	if len(body) <= 1 || body[0] != typeCompound {
		return checkPacket(body)
	}
	for _, p := range partsOf(body) { // memberlist never nests them
		if err := checkPacket(p); err != nil {
			return err
		}
	}
	return nil
}

// head is the label, as memberlist puts it before what it says.
func (r rules) head() []byte { return append([]byte{typeLabel, byte(len(r.label))}, r.label...) }

// partsOf returns the messages in a compound one, up to the first that is cut short.
func partsOf(msg []byte) (parts [][]byte) {
	n, rest := int(msg[1]), msg[2:]
	if len(rest) < 2*n {
		return nil
	}
	sizes, rest := rest[:2*n], rest[2*n:]
	for ; len(sizes) > 0; sizes = sizes[2:] {
		size := int(binary.BigEndian.Uint16(sizes))
		if size > len(rest) {
			return parts
		}
		parts, rest = append(parts, rest[:size]), rest[size:]
	}
	return parts
}
