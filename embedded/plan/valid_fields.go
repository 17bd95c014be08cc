package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// bad returns an error about the value of a field.
func bad(field string, value any, format string, args ...any) error {
	got := fmt.Sprintf("%q", fmt.Sprint(value))
	switch v := value.(type) {
	case nil:
		got = "nothing"
	case int, int64, uint64:
		got = fmt.Sprint(v)
	}
	const most = 200 // bytes: a hostile peer's value must not fill the log
	if len(got) > most {
		got = got[:most] + "…"
	}
	return fmt.Errorf("%s: %s, got %s", field, fmt.Sprintf(format, args...), got)
}

// within puts the name of the outer field before that of the inner one.
func within(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", field, err)
}

// whole checks a value that has its own Valid.
func whole[T interface{ Valid() error }](field string, v T) error { return within(field, v.Valid()) }

// part is whole for a value that may be absent.
func part[T interface{ Valid() error }](field string, v *T) error {
	if v == nil {
		return nil
	}
	return whole(field, *v)
}

// each checks every entry of a list.
func each[T any](field string, all []T, check func(field string, v T) error) error {
	for i, v := range all {
		if err := check(fmt.Sprintf("%s[%d]", field, i), v); err != nil {
			return err
		}
	}
	return nil
}

func bounded(field string, n, least, most int) error {
	if n < least || n > most {
		return bad(field, n, "must be %d–%d", least, most)
	}
	return nil
}

func limited(field string, n uint64) error {
	if n > maxNumber {
		return bad(field, n, "must be at most %d", uint64(maxNumber))
	}
	return nil
}

func revision(field string, n int64) error {
	if n < 0 || n > maxNumber {
		return bad(field, n, "must be 0–%d", int64(maxNumber))
	}
	return nil
}

// id checks the ID of a record or a proposal, which is part of file names.
func id(field, s string) error { return hexadecimal(field, s, 16) }

func optionalID(field, s string) error {
	if s == "" {
		return nil
	}
	return id(field, s)
}

func hexadecimal(field, s string, digits int) error {
	if len(s) != digits || strings.ContainsFunc(s,
		func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
		return bad(field, s, "must be %d hexadecimal digits", digits)
	}
	return nil
}

// named checks a text that is not ours to choose, such as a node's name or a disk's UUID.
func named(field, s string) error {
	if s == "" {
		return bad(field, s, "must not be empty")
	}
	return optional(field, s)
}

func optional(field, s string) error {
	if len(s) > maxName {
		return bad(field, s, "must have at most %d bytes", maxName)
	}
	return printable(field, s)
}

func printable(field, s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		return bad(field, s, "must be printable text")
	}
	return nil
}

// text checks a text for people.
func text(field, s string) error { return bounded(field, len(s), 0, maxText) }

// listOf checks the number of entries, and each.
func listOf(field string, all []string, most int, check func(field, s string) error) error {
	return cmp.Or(bounded(field, len(all), 0, most), each(field, all, check))
}

// slotName checks the name of a slot, which is part of host names. For a member that was added by hand, it is the
// member's own.
func slotName(field, s string) error {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	if s == "" || len(s) > 63 || strings.ContainsFunc(s, odd) {
		return bad(field, s, "must be 1–63 letters, digits, hyphens, underscores or dots")
	}
	return nil
}

// slotSet checks that slots are sorted and unique.
func slotSet(field string, slots []string) error {
	if err := listOf(field, slots, maxSlots, slotName); err != nil {
		return err
	}
	if !slices.IsSorted(slots) || len(slices.Compact(slices.Clone(slots))) != len(slots) {
		return bad(field, slots, "must be in order, each once")
	}
	return nil
}
