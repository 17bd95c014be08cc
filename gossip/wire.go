package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-msgpack/v2/codec"
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

// codecVersion is the first byte of everything this package sends. Another one is refused whole. Fields that a message
// does not know are passed over, so that a new one needs no new version.
const codecVersion = 2

// errVersion marks what a holdfast of another codec version wrote, as opposed to garbage.
var errVersion = errors.New("unknown version")

// kind tells the messages apart; it is the byte after the version. The rest is msgpack, as memberlist's own messages
// are.
type kind byte

const (
	kindMeta   kind = 1 // Meta: in memberlist's own packets, and all that an observer says
	kindWords  kind = 2 // words
	kindAsk    kind = 3 // ask
	kindAnswer kind = 4 // answer
)

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

// ask is a question.
type ask struct{ Question []byte }

// answer carries the body, or if Failed the text of the error: an observer is told no more than that.
type answer struct {
	Failed bool
	Body   []byte
}

// encode writes a Meta, words, an ask or an answer.
func encode(msg any) []byte {
	values := []any{msg}
	var k kind
	switch msg := msg.(type) {
	case Meta:
		k = kindMeta
	case ask:
		k = kindAsk
	case answer:
		k = kindAnswer
	case words:
		k, values = kindWords, []any{lengths{len(msg.entries), len(msg.forgotten)}}
		for _, e := range msg.entries {
			values = append(values, e)
		}
		for _, f := range msg.forgotten {
			values = append(values, f)
		}
	}
	b := bytes.NewBuffer([]byte{codecVersion, byte(k)})
	enc := codec.NewEncoder(b, msgpack)
	for _, v := range values {
		enc.MustEncode(v) // it is made of these types, and written to memory
	}
	return b.Bytes()
}

// decode reads what encode wrote; the result shares no memory with b.
func decode(b []byte) (msg any, err error) {
	if len(b) < 2 {
		return nil, errors.New("decode message: it is cut short")
	}
	if v := b[0]; v != codecVersion {
		return nil, fmt.Errorf("decode message: version %d, this holdfast knows %d: %w", v, codecVersion, errVersion)
	}
	rest := b[2:]
	switch k := kind(b[1]); k {
	case kindMeta:
		msg, err = read(&rest, maxAround, Meta.check)
	case kindWords:
		msg, err = readWords(&rest)
	case kindAsk:
		msg, err = read(&rest, maxMessage+maxAround, func(a ask) error { return fits("question", a.Question, maxMessage) })
	case kindAnswer:
		msg, err = read(&rest, maxMessage+maxAround, func(a answer) error { return fits("answer", a.Body, maxMessage) })
	default:
		err = fmt.Errorf("kind %d: %w", k, errVersion)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes trail it", len(rest))
	}
	if err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	return msg, nil
}

// read takes one value of at most limit bytes off b, and checks it if there is a check. A decoder is not shown more: what it holds of a
// value grows in steps, so that one of megabytes would cost many times as much.
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
		f, err = read(b, maxAround, func(f forgetting) error { return fits("name", nil, 0, f.Node) })
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

// fits refuses what is larger than it may be, and texts that are none.
func fits(what string, b []byte, limit int, texts ...string) error {
	if len(b) > limit {
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(b), limit)
	}
	for _, text := range texts {
		if len(text) > maxNode || !utf8.ValidString(text) {
			return fmt.Errorf("a name must be at most %d bytes of UTF-8, got %.200q", maxNode, text)
		}
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
func framed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(msg)), uint32(len(msg))), msg...)
}

// write writes a frame within limit.
func write(conn net.Conn, frame []byte, limit time.Duration) error {
	_ = conn.SetWriteDeadline(time.Now().Add(limit)) // if it cannot be set the write fails
	_, err := conn.Write(frame)
	return err
}

// readFrame reads a frame of at most limit bytes. It takes room only when it has come.
func readFrame(from io.Reader, limit int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > int64(limit) {
		return nil, errHeader
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, from, n)
	return b.Bytes(), err
}

// readMessage reads a message in a frame, nil if it is empty.
func readMessage(from io.Reader, limit int) (any, error) {
	frame, err := readFrame(from, limit)
	if err != nil || len(frame) == 0 {
		return nil, err
	}
	return decode(frame)
}
