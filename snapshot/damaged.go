package snapshot

import "errors"

// Damaged reports whether an error of Verify, Fetch or Copy speaks against the backup itself: what is stored is not
// what was saved, not all of it, or was never finished. Others say that it could not be read, that there was no room,
// or that no identity decrypts it: then nothing is known.
func Damaged(err error) bool {
	f, p := (*failure)(nil), (*problem)(nil)
	return errors.As(err, &p) || errors.As(err, &f) && f.reason == reasonMismatch && !errors.Is(err, errNoIdentity)
}
