package node

import (
	"strings"
	"testing"

	"holdfast/embedded/health"
)

// A release that is given again says the same again, and is refused where it asks for another etcd: the state on the
// volume names the first.
func TestReleaseAgain(t *testing.T) {
	var r released
	if _, err := r.again("3.6.12"); err == nil || !strings.Contains(err.Error(), "`holdfast undrain` first") {
		t.Errorf("drained by hand: got %v", err)
	}
	r.last.Store(&health.Release{To: "3.6.12", Released: true})
	for to, want := range map[string]string{"": "", "3.6.12": "", "3.6.13": "--to-etcd 3.6.13"} {
		got, err := r.again(to)
		if want == "" && (err != nil || got.To != "3.6.12") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("to %q: got %+v, %v, want %q", to, got, err, want)
		}
	}
}
