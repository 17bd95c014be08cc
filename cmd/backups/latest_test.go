package backups

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/config"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// outdated is a store whose listing lacks what begins with a prefix.
type outdated struct {
	snapshot.Store
	prefix string
}

func (s outdated) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	all, err := s.Store.List(ctx, prefix)
	return slices.DeleteFunc(all, func(o snapshot.Object) bool { return strings.HasPrefix(o.Name, s.prefix) }), err
}

// If an outdated listing lacks the newest backup, a command that takes another one for the latest says so.
func TestLatestInAnOutdatedListing(t *testing.T) {
	db := snapshottest.NewDB(t)
	dir := snapshot.NewDir(t.TempDir())
	mine := snapshot.Meta{Cluster: "main", Generation: 1}
	first := snapshottest.Keep(t, dir, db, mine)
	db.Put("a", "1")
	second := snapshottest.Keep(t, dir, db, mine)
	for hidden, want := range map[string]struct{ name, says string }{
		"nothing":   {second.Name, ""},
		first.Name:  {second.Name, ""},
		second.Name: {first.Name, second.Name + " holds more than any other"},
	} {
		var said bytes.Buffer
		b := &Backups{Config: config.Default(), Store: outdated{dir, hidden}, said: &said}
		b.Config.Cluster.Name = "main"
		got, err := b.resolve(t.Context(), Latest)
		if err != nil || got != want.name || (said.Len() > 0) != (want.says != "") ||
			!strings.Contains(said.String(), want.says) {
			t.Errorf("without %s: want %s, got %s, %v; it said %q", hidden, want.name, got, err, said.String())
		}
	}
}
