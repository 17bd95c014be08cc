package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Sizes, in bytes. maxNodes*(maxState+512) stays below the 20 MiB at which memberlist cuts a push/pull.
const (
	// maxState is the largest state a node may publish.
	maxState = 64 << 10
	// maxMessage is the largest question or answer.
	maxMessage = 1 << 20

	maxNodes  = 256 // live processes; and known nodes
	nodesOnly = 64  // of which observers never take the place
)

// kind tells the messages apart; it is the byte after the version.
type kind byte

const (
	kindEntry  kind = 1 // entry: one node's newest state
	kindAsk    kind = 2 // ask
	kindAnswer kind = 3 // answer
	kindAll    kind = 4 // []entry: everything the sender knows
)

// entry is what one process published last. Seq 0 means nothing yet.
type entry struct {
	Meta
	Seq   uint64
	State []byte
	proof []byte // that this is the speaker's word; it is told beside the entry (hearsay)
}

// ask is a question. Node and Boot name the process that waits for the answer.
type ask struct {
	ID       uint64
	Node     string
	Boot     uint64
	Question []byte
}

// answer carries the body, or if Failed the text of the error.
type answer struct {
	ID     uint64
	Failed bool
	Body   []byte
}

func encodeEntry(e entry) []byte { return appendEntry([]byte{codecVersion, byte(kindEntry)}, e) }

func encodeAll(entries []entry) []byte {
	b := []byte{codecVersion, byte(kindAll)}
	b = binary.BigEndian.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		b = appendEntry(b, e)
	}
	return b
}

func encodeAsk(a ask) []byte {
	b := appendUint64([]byte{codecVersion, byte(kindAsk)}, a.ID)
	b = appendText(b, a.Node)
	b = appendUint64(b, a.Boot)
	return appendBytes(b, a.Question)
}

func encodeAnswer(a answer) []byte {
	b := appendUint64([]byte{codecVersion, byte(kindAnswer)}, a.ID)
	failed := byte(0)
	if a.Failed {
		failed = 1
	}
	return appendBytes(append(b, failed), a.Body)
}

// decode reads any message; it returns an entry, an ask, an answer or a []entry, which share no memory with b.
func decode(b []byte) (any, error) {
	r := reader{rest: b}
	r.version()
	k := kind(r.byte())
	var msg any
	switch k {
	case kindEntry:
		msg = r.entry()
	case kindAsk:
		msg = ask{ID: r.uint64(), Node: r.text(), Boot: r.uint64(), Question: r.bytes(maxMessage)}
	case kindAnswer:
		msg = answer{ID: r.uint64(), Failed: r.bool(), Body: r.bytes(maxMessage)}
	case kindAll:
		msg = r.entries()
	default:
		if r.err == nil {
			r.err = fmt.Errorf("kind %d: %w", k, errVersion)
		}
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	return msg, nil
}

func appendEntry(b []byte, e entry) []byte {
	b = appendBytes(b, appendMeta(nil, e.Meta))
	b = appendUint64(b, e.Seq)
	return appendBytes(b, e.State)
}

func (r *reader) entry() entry {
	raw := r.bytes(maxState) // decodeMeta has the true limit
	if r.err != nil {
		return entry{}
	}
	meta, err := decodeMeta(raw)
	if err != nil {
		r.err = err
		return entry{}
	}
	return entry{Meta: meta, Seq: r.uint64(), State: r.bytes(maxState)}
}

func (r *reader) entries() []entry {
	n := int(r.uint16())
	if n > maxNodes {
		r.fail(fmt.Errorf("%d entries, at most %d are allowed", n, maxNodes))
	}
	var out []entry
	for range n {
		if r.err != nil {
			return nil
		}
		out = append(out, r.entry())
	}
	return out
}

func (w hearsay) empty() bool { return len(w.lost)+len(w.forgotten) == 0 }

// encodeHearsay stays below maxState: 256 nodes of 146 bytes each, and 64 tombstones of 154.
func encodeHearsay(w hearsay) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(w.lost)))
	for _, l := range w.lost {
		b = appendUint64(appendUint64(appendText(b, l.node), l.boot), uint64(l.age))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(w.forgotten)))
	for _, f := range w.forgotten {
		b = appendUint64(appendUint64(appendUint64(appendText(b, f.Node), f.Boot), f.Seq), uint64(f.age))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(w.proofs)))
	for _, e := range w.proofs {
		b = appendBytes(appendUint64(appendUint64(appendText(b, e.Node), e.Boot), e.Seq), e.proof)
	}
	return b
}

// decodeHearsay reads what encodeHearsay wrote. Bytes that trail it are of a later version, and nothing at all of none.
func decodeHearsay(b []byte) (w hearsay, err error) {
	if len(b) == 0 {
		return hearsay{}, nil
	}
	r := reader{rest: b}
	for range r.count(maxNodes) {
		w.lost = append(w.lost, lostFor{r.text(), r.uint64(), r.age()})
	}
	for range r.count(maxForgotten) {
		w.forgotten = append(w.forgotten, forgetting{lastWord{r.text(), r.uint64(), r.uint64()}, r.age()})
	}
	if r.err == nil && len(r.rest) > 0 { // a version before proofs ends here
		for range r.count(perEntry) {
			of := Meta{Node: r.text(), Boot: r.uint64()}
			w.proofs = append(w.proofs, entry{Meta: of, Seq: r.uint64(), proof: r.bytes(maxProof)})
		}
	}
	if r.err != nil {
		return hearsay{}, fmt.Errorf("decode what is said of lost nodes: %w", r.err)
	}
	return w, nil
}

// count reads how many things follow.
func (r *reader) count(limit int) int {
	n := int(r.uint16())
	if n > limit {
		r.fail(fmt.Errorf("%d things, at most %d are allowed", n, limit))
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) age() time.Duration { return time.Duration(min(r.uint64(), uint64(maxAge))) }

func appendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendText and appendBytes write fixed-width lengths, so that a value has exactly one encoding.
func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendBytes(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// reader takes a message apart. After the first error it returns zeros, and end reports that error.
type reader struct {
	rest []byte
	err  error
}

var errShort = errors.New("message is cut short")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) version() {
	if v := r.byte(); r.err == nil && v != codecVersion {
		r.err = fmt.Errorf("version %d, this holdfast knows %d: %w", v, codecVersion, errVersion)
	}
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.byte()
	if b > 1 {
		r.fail(fmt.Errorf("flag must be 0 or 1, got %d", b))
	}
	return b == 1
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string {
	b := r.take(int(r.uint16()))
	if !utf8.Valid(b) {
		r.fail(errors.New("text is not UTF-8"))
	}
	return string(b)
}

// bytes copies, because memberlist reuses its buffers.
func (r *reader) bytes(limit uint32) []byte {
	head := r.take(4)
	if head == nil {
		return nil
	}
	n := binary.BigEndian.Uint32(head)
	if n > limit {
		r.fail(fmt.Errorf("field has %d bytes, at most %d are allowed", n, limit))
		return nil
	}
	return append([]byte{}, r.take(int(n))...)
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes trail the message", len(r.rest))
	}
	return r.err
}
