package embedded

import (
	"errors"
	"testing"
	"time"
)

// TestKeys writes a key on one member and sees it on another. Of two writers that have seen the same version, one
// succeeds.
func TestKeys(t *testing.T) {
	nodes := found(t, "a", "b")
	one, other := nodes[0], nodes[1]
	ctx := t.Context()
	if _, version, err := one.Key("slots"); err != nil || version != 0 {
		t.Fatalf("no key yet: version %d, %v", version, err)
	}
	for i, value := range []string{"first", "second"} {
		if err := one.PutKey(ctx, "slots", []byte(value), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.PutKey(ctx, "slots", []byte("third"), 1); !errors.Is(err, ErrChanged) {
		t.Errorf("write of one who has seen the first: want ErrChanged, got %v", err)
	}
	await(t, "the other member applies it", func() bool {
		value, version, err := other.Key("slots")
		return err == nil && string(value) == "second" && version == 2
	})
	if err := other.PutKey(ctx, "slots", nil, 2); err != nil {
		t.Fatal(err)
	}
	await(t, "it is gone", func() bool { _, version, err := one.Key("slots"); return err == nil && version == 0 })
	stop(t, one, 0)
	if _, _, err := one.Key("slots"); !errors.Is(err, errStopped) {
		t.Errorf("a member that does not run: want errStopped, got %v", err)
	}
	stop(t, other, time.Second)
}
