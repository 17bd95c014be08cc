package backups

import (
	"context"
	"os"
	"slices"
	"testing"

	"holdfast/cmd/child"
)

// TestMain lets the test be the child of the drills it makes.
func TestMain(m *testing.M) {
	if i := slices.IndexFunc(child.Works, func(w child.Work) bool { return len(os.Args) > 1 && w.Name == os.Args[1] }); i >= 0 {
		if err := child.Works[i].Run(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
