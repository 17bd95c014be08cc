package gossip

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
)

// What memberlist v0.7 does with unauthenticated bytes, and what is therefore checked before it sees them:
//
//   - The first byte behind the label says whether a message is padded (0) or not (1). It is not authenticated, and the
//     padding is removed without a check of its length: one recorded message, replayed with the other byte, makes the
//     process panic (security.go, pkcs7decode).
//   - Compressed messages are accepted even with compression off, and grow to 40 MiB each; in packets they nest.
//   - A stream's header makes it reserve room for a million nodes or for 20 MiB before any of them has come (net.go).

// The first bytes of memberlist's messages, and its label (net.go, label.go).
const (
	typePing     = 0
	typeAck      = 2
	typePushPull = 6
	typeCompound = 7
	typeUser     = 8
	typeCompress = 9
	typeEncrypt  = 10
	typeCRC      = 12
	typeError    = 13
	typeLabel    = 244

	unpadded = 1 // the encryption that memberlist itself uses
)

// Sizes of what a stream may announce.
const (
	maxStream    = 20 << 20           // bytes; maxNodes states fit (wire.go)
	maxStranger  = 2 << 20            // bytes from an address outside the mesh
	maxUserBytes = maxMessage + 4<<10 // the largest question with what is around it
	maxListed    = 16 * maxNodes      // processes in a push/pull, the dead ones of a minute included
)

var (
	errPadding = errors.New("its gossip packets are not readable with our keys (encrypted as no holdfast does: " +
		"sent again, and altered?)")
	errCompressed = errors.New("its gossip is compressed, as that of no holdfast is")
	errHeader     = errors.New("its gossip announces or is more than a holdfast sends")
)

// reasonOfGuard is the label of what was refused here in holdfast_gossip_rejected_total.
func reasonOfGuard(err error) string {
	switch {
	case errors.Is(err, errPadding):
		return reasonKey
	case errors.Is(err, errStreams):
		return reasonFull
	case errors.Is(err, errCertificate), errors.Is(err, errRefusesUs), errors.Is(err, errSpeaks), errors.Is(err, errProof):
		return reasonCertificate
	}
	return reasonUnreadable
}

// vet says what is wrong with a packet, and nil where memberlist may judge it.
func vet(packet []byte, label string, keyed bool) error {
	packet, ours := bytes.CutPrefix(packet, append([]byte{typeLabel, byte(len(label))}, label...))
	if !ours {
		return nil // memberlist says so
	}
	if keyed {
		if len(packet) > 0 && packet[0] != unpadded {
			return errPadding
		}
		return nil
	}
	if len(packet) >= 5 && packet[0] == typeCRC && crc32.ChecksumIEEE(packet[5:]) == binary.BigEndian.Uint32(packet[1:]) {
		packet = packet[5:]
	}
	return vetPlain(packet, true)
}

// vetPlain checks a message, and the parts of a compound one, which memberlist never nests.
func vetPlain(msg []byte, outer bool) error {
	if len(msg) < 2 {
		return nil
	}
	switch msg[0] {
	case typeCompress:
		return errCompressed
	case typeCompound:
		if !outer {
			return errHeader
		}
		for _, part := range partsOf(msg) {
			if err := vetPlain(part, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// guarded is a stream whose beginning is checked before its first byte is handed on, within the reader's own deadline,
// and that ends after limit bytes.
type guarded struct {
	net.Conn
	read    *bufio.Reader
	label   string // "" where none is due: in the answer on a stream that we opened
	keyed   bool
	heard   hearing // with TLS: what of it counts
	left    int
	checked bool
	wrong   error
}

func guard(conn net.Conn, label string, keyed bool, limit int) *guarded {
	// what is around the message
	return &guarded{Conn: conn, read: bufio.NewReaderSize(conn, 1<<10), label: label, keyed: keyed, left: limit + 1<<10}
}

// Read is called by one goroutine at a time, as memberlist does.
func (g *guarded) Read(p []byte) (int, error) {
	if !g.checked {
		g.wrong, g.checked = g.check(), true
	}
	if g.wrong != nil {
		return 0, g.wrong
	}
	if g.left <= 0 {
		return 0, errHeader
	}
	if len(p) > g.left {
		p = p[:g.left]
	}
	n, err := g.read.Read(p)
	g.left -= n
	return n, err
}

// check looks at the beginning without consuming it. A stream that ends is memberlist's to judge.
func (g *guarded) check() error {
	h := head{r: g.read}
	if g.label != "" {
		if h.byte() != typeLabel || int(h.byte()) != len(g.label) || h.text(len(g.label)) != g.label {
			return nil
		}
	}
	kind := h.byte()
	if h.err != nil {
		return nil
	}
	switch {
	case kind == typeEncrypt && g.keyed:
		size, version := h.number(4), h.byte()
		return h.unless(size > uint64(g.left), version != unpadded)
	case g.keyed || kind == typeEncrypt:
		return nil // one side has no key: memberlist says so. An error in the clear has nothing that could be large.
	case kind == typeCompress:
		return errCompressed
	case kind == typePushPull:
		begun := h.at
		err := h.mapping(map[string]uint64{"Nodes": maxListed, "UserStateLen": uint64(g.left), "Join": 1})
		return errors.Join(err, g.sift(begun, err == nil && h.err == nil, g.heard.pushPull))
	case kind == typeUser:
		begun := h.at
		err := h.mapping(map[string]uint64{"UserMsgLen": maxUserBytes})
		return errors.Join(err, g.sift(begun, err == nil && h.err == nil, g.heard.message))
	case kind == typePing, kind == typeAck, kind == typeError:
		g.left = 4 << 10
		return nil
	}
	return nil
}

// sift replaces, with TLS, what follows the first n bytes by what the filter leaves of it, if they are whole.
func (g *guarded) sift(n int, whole bool, filter func(*bufio.Reader) ([]byte, error)) error {
	if !whole || g.heard.from.Role == 0 {
		return nil
	}
	begin := make([]byte, n)
	if _, err := io.ReadFull(g.read, begin); err != nil {
		return err
	}
	left, err := filter(bufio.NewReader(io.LimitReader(g.read, int64(g.left))))
	if err != nil {
		return err
	}
	g.read = bufio.NewReader(bytes.NewReader(append(begin, left...)))
	return nil
}

// head reads ahead. After the first error it returns zeros.
type head struct {
	r   *bufio.Reader
	at  int
	err error
}

func (h *head) byte() byte {
	if h.err != nil {
		return 0
	}
	b, err := h.r.Peek(h.at + 1)
	if err != nil {
		h.err = err
		return 0
	}
	h.at++
	return b[h.at-1]
}

func (h *head) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = h.byte()
	}
	return string(b)
}

func (h *head) number(size int) uint64 {
	var n uint64
	for range size {
		n = n<<8 | uint64(h.byte())
	}
	return n
}

func (h *head) unless(large, padded bool) error {
	switch {
	case h.err != nil:
		return nil
	case padded:
		return errPadding
	case large:
		return errHeader
	}
	return nil
}

// mapping reads a msgpack map of exactly these keys, in any order, to numbers or booleans, none of them above its
// limit.
func (h *head) mapping(limits map[string]uint64) error {
	if h.byte() != 0x80|byte(len(limits)) {
		return h.malformed("not a map")
	}
	for n := len(limits); n > 0; n-- {
		size := h.byte()
		if size&0xe0 != 0xa0 {
			return h.malformed("not a key")
		}
		key := h.text(int(size & 0x1f))
		limit, ok := limits[key]
		if !ok {
			return h.malformed("an unknown or repeated key")
		}
		delete(limits, key)
		value, ok := h.value()
		switch {
		case h.err != nil:
			return nil
		case !ok || value > limit:
			return errHeader
		}
	}
	return nil
}

// value reads what msgpack has for a number that is not negative (positive fixint, uint8–64, int8–64), false and true.
func (h *head) value() (uint64, bool) {
	switch b := h.byte(); {
	case b < 0x80:
		return uint64(b), true
	case b == 0xc2 || b == 0xc3:
		return uint64(b & 1), true
	case b >= 0xcc && b <= 0xcf:
		return h.number(1 << (b - 0xcc)), true
	case b >= 0xd0 && b <= 0xd3:
		size := 1 << (b - 0xd0)
		n := h.number(size)
		return n, n>>(8*size-1) == 0
	}
	return 0, false
}

func (h *head) malformed(what string) error {
	if h.err != nil {
		return nil
	}
	return fmt.Errorf("%w: %s", errHeader, what)
}
