package volumetest

import (
	"strings"
	"testing"

	"holdfast/volume"
)

// RunCarrier tests the contract of volume.Carrier on a volume without a claim.
func RunCarrier(t *testing.T, c volume.Carrier, vol string) {
	t.Helper()
	first := strings.Repeat("v1/aZ09+-=._:/@ ", volume.ClaimLimit/16)
	for _, step := range []struct {
		do   string
		call func() error
		want string
	}{
		{"nothing", func() error { return nil }, ""},
		{"write", func() error { return c.Write(t.Context(), vol, first) }, first},
		{"write a shorter one", func() error { return c.Write(t.Context(), vol, "v1/b") }, "v1/b"},
		{"remove another one", func() error { return c.Remove(t.Context(), vol, first) }, "v1/b"},
		{"remove", func() error { return c.Remove(t.Context(), vol, "v1/b") }, ""},
		{"remove what is not there", func() error { return c.Remove(t.Context(), vol, "v1/b") }, ""},
	} {
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.do, err)
		}
		if got, err := c.Read(t.Context(), vol); err != nil || got != step.want {
			t.Errorf("after %q: got %q, %v, want %q", step.do, got, err, step.want)
		}
	}
}
