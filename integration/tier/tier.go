// Package tier divides the tests between `make test`, which is CI, and `make prove`, which runs everything.
//
// A long test is left to make prove if a shorter one proves the same property ([Long]). Of many similar cases, such as
// a kill at each of many steps, CI runs a share that changes every day, so that it runs all of them within days
// ([Share]). Each case is in exactly one share.
//
// Only this package reads HOLDFAST_SHARE, and the Makefile for the race detector: "all" runs everything, a number runs
// that share, and the default is today's.
package tier

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

const variable = "HOLDFAST_SHARE"

// All reports whether all tests must run.
func All() bool { return os.Getenv(variable) == "all" }

// Long skips the test, unless make prove runs it. go test -v prints the reason why.
func Long(t testing.TB, why string) {
	t.Helper()
	if !All() {
		t.Skipf("left to make prove, %s=all: %s", variable, why)
	}
}

// One returns the name of one of several similar cases, another one each day, or all names, sorted.
func One[V any](t testing.TB, cases map[string]V) []string {
	t.Helper()
	return Share(t, len(cases), slices.Sorted(maps.Keys(cases)))
}

// Share returns one of several shares of similar cases; of is their number. Each case is in exactly one share.
func Share[T any](t testing.TB, of int, cases []T) []T {
	t.Helper()
	if All() {
		return cases
	}
	number := int(time.Now().Unix() / int64(24*time.Hour/time.Second))
	if text := os.Getenv(variable); text != "" {
		var err error
		if number, err = strconv.Atoi(text); err != nil || number < 0 {
			t.Fatalf(`%s must be "all" or the number of a share, got %q`, variable, text)
		}
	}
	var share []T
	for i := number % of; i < len(cases); i += of {
		share = append(share, cases[i])
	}
	t.Logf("%d of %d cases; %s=%d runs these again, %[3]s=all runs all", len(share), len(cases), variable, number)
	return share
}
