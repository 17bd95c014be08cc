package volume

import (
	"strings"
	"testing"
	"time"

	"holdfast/invalid"
)

func TestDefaultIsValid(t *testing.T) {
	must(t, invalid.Join(Default().Validate))
}

func TestValidateNamesEveryKey(t *testing.T) {
	err := invalid.Join(Config{Provider: "floppy", Local: LocalConfig{
		Scope: "galaxy", Slot: "A/b", TakeoverAfter: -time.Second, Mount: "maybe",
	}}.Validate)
	if err == nil {
		t.Fatal("got nil, want errors")
	}
	for _, want := range []string{
		`volume.provider: must be local or ebs, got "floppy"`,
		`volume.local.scope: must be machine or host, got "galaxy"`,
		`volume.local.slot: must be a DNS label of lower-case letters and digits, got "A/b"`,
		`volume.local.takeover-after: must be 0s to 1h, got -1s`,
		`volume.local.mount: must be auto, require or ignore, got "maybe"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to contain %q", err, want)
		}
	}
}

func TestWantIsChecked(t *testing.T) {
	for _, want := range []Want{
		{},
		{Cluster: "c"},
		{Slots: []string{"a"}},
		{Cluster: "c", Slots: []string{"a", "../b"}},
		{Cluster: "c", Slots: []string{""}},
		{Cluster: "c", Slots: []string{"a.lock"}},
	} {
		if _, err := newLocal(t, t.TempDir(), "n1").Claim(t.Context(), want); err == nil {
			t.Errorf("%+v: got nil, want an error", want)
		}
	}
}
