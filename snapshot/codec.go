package snapshot

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// window is how far a zstd stream of ours looks back. Kubernetes-shaped data becomes 5.87 times smaller at the
	// fastest level, and 5.93 times with a window of 4 MiB.
	window = 512 << 10
	// maxWindow is how far back a stream that we read may look: the decoder keeps that much in memory, and a forged header
	// must not demand more.
	maxWindow = 8 << 20
)

// effort is what each of Levels means to the encoders, in the same order.
var effort = []struct {
	zstd zstd.EncoderLevel
	gzip int
}{
	{zstd.SpeedFastest, gzip.BestSpeed},
	{zstd.SpeedDefault, 5},
	{zstd.SpeedBetterCompression, 7},
	{zstd.SpeedBestCompression, gzip.BestCompression},
}

// codecOf returns how a backup with these options is compressed.
func codecOf(opt Options) (codec string, level int, err error) {
	level = 0
	if opt.Level != "" {
		level = slices.Index(Levels, opt.Level)
	}
	switch {
	case level < 0:
		return "", 0, fmt.Errorf("compression level: must be one of %s, got %q", strings.Join(Levels, ", "), opt.Level)
	case opt.Format == FormatManager && len(opt.Recipients) > 0:
		return "", 0, fmt.Errorf("format %s: etcd-manager cannot decrypt: use format %s to encrypt, or no recipients",
			FormatManager, FormatNative)
	case opt.Format == FormatManager:
		return codecGzip, level, nil
	case opt.Format == FormatNative || opt.Format == "":
		return codecZstd, level, nil
	}
	return "", 0, fmt.Errorf("format: must be %s or %s, got %q", FormatNative, FormatManager, opt.Format)
}

// newEncoder compresses into w, in the goroutine that writes to it. Its memory does not depend on the size of the
// stream.
func newEncoder(w io.Writer, codec string, level int) (io.WriteCloser, error) {
	if codec == codecGzip {
		return gzip.NewWriterLevel(w, effort[level].gzip)
	}
	return zstd.NewWriter(w, zstd.WithEncoderLevel(effort[level].zstd), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window))
}

// newDecoder decompresses r in bounded memory, no matter what r says.
func newDecoder(r io.Reader, codec string) (io.ReadCloser, error) {
	if codec == codecGzip {
		return gzip.NewReader(r)
	}
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return dec.IOReadCloser(), nil
}
