package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// What a certificate may say: doc.go, Transport. What a node says to the delegates is prefixed with the name of the
// node that it speaks for, since memberlist does not tell them who speaks.

// Types of memberlist's messages, beside those of guard.go (net.go there).
const (
	typeIndirectPing = 1
	typeSuspect      = 3
	typeAlive        = 4
	typeDead         = 5
	typeNack         = 11
)

// maxIncarnation bounds how often a process can have objected. A message with a higher number would leave it none to
// object with.
const maxIncarnation = 1 << 20

var errSpeaks = errors.New("with an observer's certificate it speaks as a node does: it is not listened to")

// rumour is memberlist's alive; its suspect and dead begin in the same way.
type rumour struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
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

// hearing filters what one speaker says over a connection. Without TLS nobody knows who it is.
type hearing struct {
	rules
	from Speaker
}

// node reports whether the speaker may say what a node does.
func (r hearing) node() bool { return r.plain || r.from.Role == RoleNode }

// mayTell reports whether the speaker may say that a process is live, and describe it so.
func (r hearing) mayTell(process string, meta []byte, incarnation uint32) bool {
	if r.node() {
		return true
	}
	m, err := decodeMeta(meta)
	if err != nil || !m.Observer || incarnation >= maxIncarnation {
		return false
	}
	was, known := r.process(process)
	return was.Observer || !known
}

// mayHear reports whether a message in a packet counts. Those for the delegates do not: they come over streams.
func (r hearing) mayHear(msg []byte) (bool, error) {
	if len(msg) == 0 {
		return false, nil
	}
	switch msg[0] {
	case typePing, typeIndirectPing, typeAck, typeNack:
		return true, nil
	case typeSuspect, typeAlive, typeDead:
		return r.node() || r.mayRumour(msg), nil
	case typeCompress:
		return false, errCompressed
	}
	return false, errHeader
}

// mayRumour reports whether an observer may say this of a process.
func (r hearing) mayRumour(msg []byte) bool {
	var about rumour
	if codec.NewDecoderBytes(msg[1:], msgpack).Decode(&about) != nil {
		return false
	}
	switch msg[0] {
	case typeSuspect:
		return about.Incarnation < maxIncarnation
	case typeDead:
		was, _ := r.process(about.Node)
		return was.Observer
	}
	return r.mayTell(about.Node, about.Meta, about.Incarnation)
}

// packet returns what counts of a packet, with its label; nil if nothing does.
func (r hearing) packet(packet []byte) ([]byte, error) {
	head := r.head()
	body, ours := bytes.CutPrefix(packet, head)
	switch {
	case !ours:
		return packet, nil // memberlist says so
	case r.keyed && len(body) > 0 && body[0] != unpadded:
		return nil, errPadding
	case r.keyed:
		return packet, nil
	}
	if len(body) >= 5 && body[0] == typeCRC {
		if crc32.ChecksumIEEE(body[5:]) != binary.BigEndian.Uint32(body[1:]) {
			return nil, errHeader
		}
		body = body[5:]
	}
	parts := [][]byte{body}
	if len(body) > 1 && body[0] == typeCompound {
		parts = partsOf(body) // memberlist never nests them
	}
	var counts [][]byte
	for _, p := range parts {
		may, err := r.mayHear(p)
		if err != nil {
			return nil, err
		}
		if may {
			counts = append(counts, p)
		}
	}
	switch len(counts) {
	case 0:
		return nil, nil
	case len(parts):
		return packet, nil
	}
	some := append(head, typeCompound, byte(len(counts)))
	for _, p := range counts {
		some = binary.BigEndian.AppendUint16(some, uint16(len(p)))
	}
	return append(some, bytes.Join(counts, nil)...), nil
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

// pushPull reads a push/pull, behind its first byte, and writes what counts of it: of an observer's, the observers that
// it tells of. An observer's state for the delegate must be empty, as an honest one's is.
func (r hearing) pushPull(in *values, out *bytes.Buffer) error {
	var head struct {
		Nodes, UserStateLen int
		Join                bool
	}
	if err := in.next(&head); err != nil {
		return err
	}
	if !within(head.Nodes, maxListed) || !within(head.UserStateLen, in.rest) {
		return errHeader
	}
	if head.UserStateLen != 0 && !r.node() {
		return errSpeaks
	}
	var told []any
	for range head.Nodes {
		var p pushed
		if err := in.next(&p); err != nil {
			return err
		}
		if r.mayTell(p.Name, p.Meta, p.Incarnation) {
			told = append(told, p)
		}
	}
	state := head.UserStateLen
	if state > 0 {
		head.UserStateLen += len(r.speaker())
	}
	head.Nodes = len(told)
	return r.write(out, append([]any{head}, told...), in, state)
}

// message reads a message for the delegate, behind its first byte.
func (r hearing) message(in *values, out *bytes.Buffer) error {
	if !r.node() {
		return errSpeaks
	}
	var head struct{ UserMsgLen int }
	if err := in.next(&head); err != nil {
		return err
	}
	if !within(head.UserMsgLen, maxUserBytes) {
		return errHeader
	}
	size := head.UserMsgLen
	if size > 0 {
		head.UserMsgLen += len(r.speaker())
	}
	return r.write(out, []any{head}, in, size)
}

func within(n, limit int) bool { return 0 <= n && n <= limit }

// write writes all values, and behind them the next size bytes for the delegate, which begin with the speaker. They
// take room only when they have come.
func (r hearing) write(out *bytes.Buffer, all []any, in *values, size int) error {
	enc := codec.NewEncoder(out, msgpack)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	if size > in.rest {
		return errHeader
	}
	if size > 0 {
		out.Write(r.speaker())
	}
	_, err := io.CopyN(out, in.from, int64(size))
	return err
}

// speaker is the node that the speaker speaks for, which goes before what it says to the delegates; speakerOf reads it.
// Without TLS nobody knows.
func (r hearing) speaker() []byte {
	if r.plain {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(r.from.Node))), r.from.Node...)
}

func speakerOf(msg []byte) (from Speaker, rest []byte, err error) {
	const size = 4
	if len(msg) < size || len(msg)-size < int(binary.BigEndian.Uint32(msg)) {
		return from, nil, errHeader
	}
	end := size + int(binary.BigEndian.Uint32(msg))
	return Speaker{RoleNode, string(msg[size:end])}, msg[end:], nil
}
