package coordinator

import (
	"slices"
	"testing"
)

// A node whose configuration names no slots wants those that its cluster has, and not the default: the file may have
// been emptied or cut off.
func TestSlotsThatAreNotSet(t *testing.T) {
	w, _ := restorable(t)
	co := w.holding()
	w.company(t, nil)
	for unset, want := range map[bool][]string{false: {"a"}, true: {"a", "b", "c"}} {
		co.Reconfigure([]string{"a"}, unset)
		if o := look(t, co); !slices.Equal(o.Config.Slots, want) {
			t.Errorf("unset %v: got %v, want %v", unset, o.Config.Slots, want)
		}
	}
}
