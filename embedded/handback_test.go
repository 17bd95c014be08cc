package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// Whatever a volume was before, after a hand-back etcd-manager finds its state and the data, and holdfast finds what it
// had.
func TestHandBack(t *testing.T) {
	smallLogs(t)
	for name, tc := range map[string]struct {
		make func(t *testing.T) (volume string)
		want string // the error
	}{
		"never taken up": {func(t *testing.T) string { return onManagers(t, threeOf36().data(t)) }, ""},
		"taken up": {func(t *testing.T) string {
			volume := onManagers(t, threeOf36().data(t))
			o, err := ofThree.Origin(volume)
			check(t, err)
			check(t, ofThree.TakeUp(volume, *o))
			return volume
		}, ""},
		"holdfast's own": {func(t *testing.T) string {
			volume := t.TempDir()
			check(t, os.Rename(threeOf36().data(t), filepath.Join(volume, etcdDir)))
			return volume
		}, ""},
		"blank": {func(t *testing.T) string { return t.TempDir() }, "there is no data in"},
		"both": {func(t *testing.T) string {
			volume := onManagers(t, threeOf36().data(t))
			check(t, os.Rename(threeOf36().data(t), filepath.Join(volume, etcdDir)))
			return volume
		}, "both may hold data"},
	} {
		volume := tc.make(t)
		ours, err := ofThree.Inspect(filepath.Join(volume, etcdDir))
		check(t, err)
		s := managed("tok")
		s.Version = "3.6.16"
		before := fingerprint(t, volume)
		for range 2 {
			err := ofThree.HandBack(volume, s)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", name, err, tc.want)
			}
		}
		if tc.want != "" {
			if fingerprint(t, volume) != before {
				t.Errorf("%s: the volume was changed", name)
			}
			continue
		}
		if got, err := ReadManagerState(volume); err != nil || got.Version != "3.6.16" || got.Token != "tok" {
			t.Errorf("%s: state: got %+v, %v", name, got, err)
		}
		if m, err := ReadMemberships(filepath.Join(volume, managerData, "tok")); err != nil || m.Member != 7 {
			t.Errorf("%s: etcd-manager finds %+v, %v", name, m, err)
		}
		if got, err := ofThree.Inspect(filepath.Join(volume, etcdDir)); err != nil || got != ours {
			t.Errorf("%s: holdfast finds %+v, %v, want %+v", name, got, err, ours)
		}
		if o, err := ofThree.Origin(volume); err != nil || o == nil || o.Program != plan.EtcdManager || o.Obstacle != "" || o.Member != 7 {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
}
