package gossip

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// memberlist is handed only kinds of messages that holdfast sends, and none that makes it reserve more memory than has
// arrived. With TLS, a message for the delegates begins with the node that its speaker speaks for: memberlist does not
// tell them who speaks.

// Types of memberlist's messages, beside those of guard.go (net.go there).
const (
	typeIndirectPing = 1
	typeSuspect      = 3
	typeAlive        = 4
	typeDead         = 5
	typeNack         = 11
)

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

// hearing is what one speaker says over a connection. Without TLS nobody knows who it is.
type hearing struct {
	rules
	from Speaker
}

// check returns why a message in a packet is refused. Messages for the delegates come over streams.
func check(msg []byte) error {
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
		return check(body)
	}
	for _, p := range partsOf(body) { // memberlist never nests them
		if err := check(p); err != nil {
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

// pushPull reads a push/pull, behind its first byte, and writes it with its speaker.
func (r hearing) pushPull(in *values, out *bytes.Buffer) error {
	var head struct {
		Nodes, UserStateLen int
		Join                bool
	}
	if err := in.next(&head); err != nil {
		return err
	}
	if head.Nodes < 0 || head.Nodes > maxListed {
		return errHeader
	}
	told := []any{&head}
	for range head.Nodes {
		var p pushed
		if err := in.next(&p); err != nil {
			return err
		}
		told = append(told, p)
	}
	return r.write(out, told, in, &head.UserStateLen, maxStream)
}

// message reads a message for the delegate, behind its first byte, and writes it with its speaker.
func (r hearing) message(in *values, out *bytes.Buffer) error {
	var head struct{ UserMsgLen int }
	if err := in.next(&head); err != nil {
		return err
	}
	return r.write(out, []any{&head}, in, &head.UserMsgLen, maxUserBytes)
}

// write writes all values, and behind them the next size bytes for the delegate, at most limit, which then begin with
// the speaker. They take room only when they have come.
func (r hearing) write(out *bytes.Buffer, all []any, in *values, size *int, limit int) error {
	n, speaker := *size, r.speaker()
	if n < 0 || n > min(limit, in.rest) {
		return errHeader
	}
	if n == 0 {
		speaker = nil
	}
	*size += len(speaker)
	enc := codec.NewEncoder(out, msgpack)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	out.Write(speaker)
	_, err := io.CopyN(out, in.from, int64(n))
	return err
}

// speaker is the node that the speaker speaks for, which goes before what it says to the delegates; speakerOf reads it.
// Without TLS nobody knows.
func (r hearing) speaker() []byte {
	if r.from == (Speaker{}) {
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
