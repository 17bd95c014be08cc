package volume

import "context"

// ClaimLimit is the longest text of a claim, in bytes. Its characters are the letters, digits, spaces and
// + - = . _ : / @ that every AWS service allows in tags.
const ClaimLimit = 255

// Carrier keeps the texts of the claims on volumes, beside the volumes: in tags or labels. What it says is intent and
// memory. It need not be a lock, and reads may be stale: safety never rests on it.
//
// Where a label is shorter than [ClaimLimit] or allows fewer characters (63 of a-z, 0-9, - and _ in some clouds), the
// carrier encodes the text and spreads it over several labels. If those do not change together, a mixture of two texts
// must not be read as one: the carrier adds a checksum, and reads a text that fails it as no claim.
type Carrier interface {
	// Read returns the text of the claim on a volume, "" for none.
	Read(ctx context.Context, volume string) (text string, err error)
	// Write replaces it: the last writer wins, and nothing is compared.
	Write(ctx context.Context, volume, text string) error
	// Remove removes the claim if it is exactly this text, and does not say whether it did.
	Remove(ctx context.Context, volume, text string) error
}
