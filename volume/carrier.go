package volume

import "context"

// ClaimLimit is the longest text of a claim, in bytes. Its characters are the letters, digits, spaces and
// + - = . _ : / @ that every AWS service allows in tags.
const ClaimLimit = 255

// Carrier stores the texts of the claims beside the volumes, in tags or labels. They are hints: a carrier need not be a
// lock, and reads may be stale, because safety never rests on them.
//
// If a label is shorter than [ClaimLimit] or allows fewer characters (63 of a-z, 0-9, - and _ in some clouds), the
// carrier encodes the text and spreads it over several labels. If labels do not change together, a mixture of two texts
// must not be read as one: the carrier then adds a checksum, and reads a text with a wrong checksum as no claim.
type Carrier interface {
	// Read returns the text of the claim on a volume, or "".
	Read(ctx context.Context, volume string) (text string, err error)
	// Write replaces the text without comparing: the last writer wins.
	Write(ctx context.Context, volume, text string) error
	// Remove removes the claim if it is exactly this text. It does not report whether it did.
	Remove(ctx context.Context, volume, text string) error
}
