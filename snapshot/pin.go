package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// pin is the object that keeps a backup from being pruned.
type pin struct {
	Version int       `json:"version"` // 1
	Why     string    `json:"why"`
	Since   time.Time `json:"since"`
}

// maxWhy limits the reason of a pin, in bytes: it is shown in a column of a table.
const maxWhy = 200

// Pin keeps a backup from being pruned until Unpin. why is for people, one line of at most 200 bytes. Pinning it again
// replaces the reason. The error is ErrNotFound if there is no such backup.
func Pin(ctx context.Context, store Store, name, why string) error {
	if err := CheckReason(why); err != nil {
		return fmt.Errorf("pin backup %s: %w", name, err)
	}
	text, err := encodeLine(pinObject, pin{1, why, time.Now().UTC()})
	if err == nil {
		err = putBeside(ctx, store, name, pinObject, text)
	}
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("there is no complete one of that name: %w", err)
	}
	if err != nil {
		return fmt.Errorf("pin backup %s: %w", name, err)
	}
	return nil
}

// CheckReason returns an error unless why is a valid reason for Pin.
func CheckReason(why string) error {
	if len(why) > maxWhy || !utf8.ValidString(why) || strings.ContainsFunc(why, unicode.IsControl) {
		return fmt.Errorf("the reason must be one line of at most %d bytes, got %d: %.40q", maxWhy, len(why), why)
	}
	return nil
}

// Unpin undoes Pin. Unpinning a backup that is not pinned is no error.
func Unpin(ctx context.Context, store Store, name string) error {
	if err := checkBackupName(name); err != nil {
		return fmt.Errorf("unpin backup: %w", err)
	}
	if err := store.Delete(ctx, object(name, pinObject)); err != nil {
		return fmt.Errorf("unpin backup %s: %w", name, err)
	}
	return nil
}
