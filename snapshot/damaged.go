package snapshot

import "errors"

// Damaged reports whether an error of Verify, Fetch or Copy is about the backup itself: what is stored is not what was
// saved, is incomplete, or was never finished. Other errors say that it could not be read, that there was no room, or
// that no identity decrypts it: they say nothing about the backup.
func Damaged(err error) bool {
	f, p := (*failure)(nil), (*problem)(nil)
	return errors.As(err, &p) || errors.As(err, &f) && f.reason == reasonMismatch && !errors.Is(err, errNoIdentity)
}
