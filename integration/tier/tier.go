// Package tier divides the tests between `make test`, which is CI, and `make prove`, which runs everything.
//
// What takes long and has a shorter neighbour that proves the same property is left to make prove ([Long]). Of many
// alike cases, such as a kill at each of many steps, CI runs a share that changes every day, so that it meets all of
// them within days ([Share]). Each case is in one of the shares.
//
// HOLDFAST_SHARE is read here and nowhere else. "all" runs everything, a number that share, and without it today's.
package tier

import (
	"os"
	"strconv"
	"testing"
	"time"
)

const variable = "HOLDFAST_SHARE"

// All reports whether everything is to run.
func All() bool { return os.Getenv(variable) == "all" }

// Long leaves the test to make prove. It says why, which go test prints with -v.
func Long(t testing.TB, why string) {
	t.Helper()
	if !All() {
		t.Skipf("left to make prove, %s=all: %s", variable, why)
	}
}

// Share returns one of so many shares of alike cases. All shares together are all cases, each once.
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
