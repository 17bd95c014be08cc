package tier

import (
	"fmt"
	"slices"
	"testing"
)

// The shares together contain every case once, also where there are fewer cases than shares.
func TestShare(t *testing.T) {
	for _, of := range []int{1, 3, 7} {
		var union []int
		cases := []int{0, 1, 2, 3, 4}
		for number := range of {
			t.Setenv(variable, fmt.Sprint(7*of+number))
			union = append(union, Share(t, of, cases)...)
		}
		if slices.Sort(union); !slices.Equal(union, cases) {
			t.Errorf("%d shares have %v, want %v", of, union, cases)
		}
	}
	t.Setenv(variable, "all")
	if got := Share(t, 7, []int{0, 1}); len(got) != 2 {
		t.Errorf("all: got %v", got)
	}
}

func TestLong(t *testing.T) {
	for value, want := range map[string]bool{"": false, "3": false, "all": true} {
		t.Setenv(variable, value)
		ran := false
		t.Run(value, func(t *testing.T) {
			Long(t, "a test of it")
			ran = true
		})
		if ran != want {
			t.Errorf("%q: ran is %t", value, ran)
		}
	}
}
