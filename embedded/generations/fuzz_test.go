package generations

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// FuzzRecords puts arbitrary bytes in the place of a cluster's record, a proposal and its outcome. It expects an error,
// or an answer that has what every record has.
func FuzzRecords(f *testing.F) {
	founding := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	p := coordinator.NewRestore(founding, 0, coordinator.Backup{Name: "2026-07-01T00:15:03Z-000042", Digest: strings.Repeat("d", 64), Revision: 5}, 5, 10)
	born := outcomeOf(p, founding)
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(text(founding), text(p), text(outcome{Record: &born}))
	f.Add(text(founding), text(p), text(outcome{Abort: &plan.Abort{ID: p.ID, Why: "enough"}}))
	f.Add(text(founding), text(p), []byte(`{"record":{"generation":18446744073709551615},"abort":{"why":"x"}}`))
	f.Add(text(founding), []byte(`{"id":"x","line":["../.."],"backup":"../../etc/passwd","digest":"d","attempt":-1}`), []byte(`{}`))
	f.Add([]byte(`{"id":"x","generation":-1}`), []byte(`null`), []byte(strings.Repeat("[", 20000)))
	f.Fuzz(func(t *testing.T, record, restore, end []byte) {
		dir := t.TempDir()
		r := New(snapshot.NewDir(dir), "main", nil)
		for name, content := range map[string][]byte{r.recordName(1): record, r.restoreName(2, 1): restore, r.outcomeName(2, 1): end} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		known, err := r.Known(t.Context())
		if err != nil {
			return
		}
		if r := known.Record; r == nil || r.ID == "" || r.Generation == 0 {
			t.Errorf("accepted %q, %q, %q: got %+v", record, restore, end, r)
		}
	})
}
