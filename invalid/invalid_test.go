package invalid

import "testing"

func TestJoin(t *testing.T) {
	if err := Join(func(func(key, format string, args ...any)) {}); err != nil {
		t.Errorf("nothing is wrong: got %v", err)
	}
	err := Join(func(wrong func(key, format string, args ...any)) {
		wrong("a.b", "must be %d, got %q", 1, "x%d")
		wrong("a.c", "is missing")
	})
	if want := "a.b: must be 1, got \"x%d\"\na.c: is missing"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
