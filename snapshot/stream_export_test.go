package snapshot

import "io"

// What the tests of streams reach for.
var (
	Limited    = limited
	NewDecoder = newDecoder
)

// NewEncoder returns what compresses what a fan is given.
func NewEncoder(w io.Writer, codec string) (lanes []io.Writer, finish func(end []byte) error, err error) {
	return newEncoder(w, codec, 0)
}

// NewFan starts a fan.
func NewFan(writers ...io.Writer) io.WriteCloser { return newFan(writers...) }
