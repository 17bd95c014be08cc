package snapshot

import "io"

// What the tests of streams reach for.
var Limited = limited

// NewFan starts a fan.
func NewFan(writers ...io.Writer) io.WriteCloser { return newFan(writers...) }
