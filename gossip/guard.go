package gossip

import (
	"bufio"
	"bytes"
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
	maxListed    = 16 * maxNodes      // processes in a push/pull, with those that are gone
	maxListing   = 2 << 10            // bytes of one of them: its name and Meta have less than 700
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
	case errors.Is(err, errStreams), errors.Is(err, errObservers):
		return reasonFull
	case errors.Is(err, errCertificate), errors.Is(err, errRefusesUs), errors.Is(err, errSpeaks), errors.Is(err, errProof):
		return reasonCertificate
	}
	return reasonUnreadable
}

// guarded is a stream whose beginning is checked before its first byte is handed on, within the reader's own deadline,
// and that ends after left bytes.
type guarded struct {
	net.Conn
	read    *bufio.Reader
	label   []byte // none is due in the answer on a stream that we opened
	heard   hearing
	left    int
	checked bool
	wrong   error
}

func guard(conn net.Conn, label []byte, heard hearing, limit int) *guarded {
	// what is around the message
	return &guarded{Conn: conn, read: bufio.NewReaderSize(conn, 1<<10), label: label, heard: heard, left: limit + 1<<10}
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
	n, err := g.read.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// check looks at the beginning. A stream that ends there, or has another label, is memberlist's to judge.
func (g *guarded) check() error {
	n := len(g.label)
	begin, _ := g.read.Peek(n + 1)
	if len(begin) <= n || !bytes.HasPrefix(begin, g.label) {
		return nil
	}
	switch kind := begin[n]; {
	case kind == typeEncrypt && g.heard.keyed:
		size := 4
		begin, _ = g.read.Peek(n + 1 + size + 1)
		if len(begin) <= n+1+size {
			return nil
		}
		if begin[n+1+size] != unpadded {
			return errPadding
		}
		if int(binary.BigEndian.Uint32(begin[n+1:])) > g.left {
			return errHeader
		}
	case g.heard.keyed || kind == typeEncrypt:
		// One side has no key: memberlist says so. An error in the clear has nothing that could be large.
	case kind == typeCompress:
		return errCompressed
	case kind == typePushPull:
		return g.sift(g.heard.pushPull)
	case kind == typeUser:
		return g.sift(g.heard.message)
	case kind == typePing, kind == typeAck, kind == typeError:
		g.left = 4 << 10
	}
	return nil
}

// sift replaces the rest of the stream by what the filter writes.
func (g *guarded) sift(filter func(in *values, out *bytes.Buffer) error) error {
	var out bytes.Buffer
	if _, err := io.CopyN(&out, g.read, int64(len(g.label)+1)); err != nil {
		return err
	}
	if err := filter(newValues(g.read, g.left), &out); err != nil {
		return err
	}
	g.read, g.left = bufio.NewReader(&out), out.Len()+1 // its end is read, too
	return nil
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
