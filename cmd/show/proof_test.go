package show_test

import (
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
)

// A drill says what it compared.
func TestComparedText(t *testing.T) {
	checked := []string{"revision 7", "records 3", "compacted revision 0", "HashKV 42"}
	for unrecorded, want := range map[bool]string{
		false: "revision 7, records 3, compacted revision 0 and HashKV 42 are what was saved",
		true:  "revision 7, records 3, compacted revision 0 and HashKV 42 are what its database holds; etcd-manager recorded nothing to compare it with",
	} {
		if got := show.ComparedText(checked, unrecorded); got != want {
			t.Errorf("unrecorded %t: got %q, want %q", unrecorded, got, want)
		}
	}
}

// Of one time, the stronger proof is shown.
func TestProvenText(t *testing.T) {
	b := snapshot.Backup{Proofs: []snapshot.Proof{{Kind: "digest", At: noon}, {Kind: "verify", At: noon}}}
	if got := show.ProvenText(b, noon.Add(2*time.Hour)); got != "verify 2h ago" {
		t.Errorf("got %q", got)
	}
}
