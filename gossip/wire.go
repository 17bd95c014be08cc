package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// Sizes, in bytes. maxNodes*(maxState+maxProof+1024) stays below the 20 MiB at which memberlist cuts a push/pull.
const (
	// maxState is the largest state a node may publish.
	maxState = 64 << 10
	// maxMessage is the largest question or answer.
	maxMessage = 1 << 20
	// maxAround is what else a value may take: names, a version, an address, and fields that are not known.
	maxAround = 4 << 10

	maxNodes = 256 // live nodes; and known ones
)

// version is that of the format, in the name of each protocol (tls.go). Another one is refused whole. Fields that a
// message does not know are passed over, so that a new one needs no new version.
const version = 3

var msgpack = &codec.MsgpackHandle{}

// entry is what one process published last. Seq 0 means nothing yet.
type entry struct {
	Meta
	Seq   uint64
	State []byte
	Proof []byte        // that this is the speaker's word (proof.go)
	Lost  time.Duration // for how long the teller has lost the process, 0 if it has not
	// Gossip is where the teller heard it last. Only observers are told, and not of the teller itself.
	Gossip netip.AddrPort
}

// forgetting is a command that was given this long ago.
type forgetting struct {
	lastWord
	Age time.Duration
}

// words are what is told of nodes: what they said last, and what was forgotten by command.
type words struct {
	entries   []entry
	forgotten []forgetting
}

// lengths go before the words, so that no length is believed before it was looked at.
type lengths struct{ Entries, Forgotten int }

func encode(values ...any) []byte {
	var b bytes.Buffer
	enc := codec.NewEncoder(&b, msgpack)
	for _, v := range values {
		enc.MustEncode(v) // it is made of these types, and written to memory
	}
	return b.Bytes()
}

func (w words) encode() []byte {
	values := []any{lengths{len(w.entries), len(w.forgotten)}}
	for _, e := range w.entries {
		values = append(values, e)
	}
	for _, f := range w.forgotten {
		values = append(values, f)
	}
	return encode(values...)
}

// decode has f read what encode wrote; the result shares no memory with b.
func decode[T any](b []byte, f func(rest *[]byte) (T, error)) (v T, err error) {
	if v, err = f(&b); err == nil && len(b) > 0 {
		err = fmt.Errorf("%d bytes trail it", len(b))
	}
	if err != nil {
		return v, fmt.Errorf("decode message: %w", err)
	}
	return v, nil
}

func decodeMeta(b []byte) (Meta, error) {
	if len(b) > memberlist.MetaMaxSize {
		return Meta{}, fmt.Errorf("decode meta: %d bytes, at most %d are allowed", len(b), memberlist.MetaMaxSize)
	}
	return decode(b, func(rest *[]byte) (Meta, error) { return read(rest, maxAround, Meta.check) })
}

func decodeWords(b []byte) (words, error) { return decode(b, readWords) }

// read takes one value of at most limit bytes off b, and checks it if there is a check. A decoder is not shown more:
// what it holds of a value grows in steps, so that one of megabytes would cost many times as much.
func read[T any](b *[]byte, limit int, check func(T) error) (v T, err error) {
	dec := codec.NewDecoderBytes((*b)[:min(len(*b), limit)], msgpack)
	if err = dec.Decode(&v); err == nil {
		*b = (*b)[dec.NumBytesRead():]
	}
	if err == nil && check != nil {
		err = check(v)
	}
	return v, err
}

func readWords(b *[]byte) (w words, err error) {
	n, err := read(b, maxAround, lengths.check)
	for err == nil && len(w.entries) < n.Entries {
		var e entry
		e, err = read(b, maxState+maxProof+maxAround, entry.check)
		e.Lost = bounded(e.Lost)
		w.entries = append(w.entries, e)
	}
	for err == nil && len(w.forgotten) < n.Forgotten {
		var f forgetting
		f, err = read(b, maxAround, func(f forgetting) error { return checkNode(f.Node) })
		f.Age = bounded(f.Age)
		w.forgotten = append(w.forgotten, f)
	}
	return w, err
}

func (n lengths) check() error {
	if n.Entries > maxNodes || n.Forgotten > maxForgotten {
		return fmt.Errorf("%d nodes and %d forgotten ones, at most %d and %d are allowed", n.Entries, n.Forgotten, maxNodes,
			maxForgotten)
	}
	return nil
}

func (e entry) check() error {
	return errors.Join(e.Meta.check(), fits("state", e.State, maxState), fits("proof", e.Proof, maxProof))
}

// fits refuses what is larger than it may be.
func fits(what string, b []byte, limit int) error {
	if len(b) > limit {
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(b), limit)
	}
	return nil
}

// bounded takes a time beyond all bounds for the longest.
func bounded(age time.Duration) time.Duration {
	if age < 0 {
		return maxAge
	}
	return min(age, maxAge)
}

// framed puts the length of a message or packet before it, for a connection that carries many.
func framed(parts ...[]byte) []byte {
	frame := slices.Concat(append([][]byte{make([]byte, 4)}, parts...)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// write writes a frame within limit.
func write(conn net.Conn, frame []byte, limit time.Duration) error {
	_ = conn.SetWriteDeadline(time.Now().Add(limit)) // if it cannot be set the write fails
	_, err := conn.Write(frame)
	return err
}

// readFrame reads a frame of at most limit bytes, in pieces: it takes room only when it has come.
func readFrame(from io.Reader, limit int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > int64(limit) {
		return nil, errHeader
	}
	var pieces [][]byte
	for n > 0 {
		piece := make([]byte, min(n, 64<<10))
		if _, err := io.ReadFull(from, piece); err != nil {
			return nil, err
		}
		pieces, n = append(pieces, piece), n-int64(len(piece))
	}
	return slices.Concat(pieces...), nil
}

// The first byte of an answer.
const (
	refused  = 0 // the text of an error follows: no more is told
	answered = 1
)

// readAnswer reads an answer in a frame, nil if it is empty.
func readAnswer(from io.Reader, limit int) ([]byte, error) {
	frame, err := readFrame(from, limit)
	switch {
	case err != nil || len(frame) == 0:
		return nil, err
	case frame[0] == refused:
		return nil, errors.New(string(frame[1:min(len(frame), maxAround)]))
	case frame[0] != answered:
		return nil, errHeader
	}
	return frame[1:], nil
}

// refuse says why there is no answer.
func refuse(conn *peerConn, why error) {
	_ = write(conn, framed([]byte{refused}, []byte(why.Error())), streamTimeout)
}
