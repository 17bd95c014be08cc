package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/embedded/plan"
	"holdfast/layout"
)

// Data that was given back is obsolete once the other program has made another cluster, and only then.
func TestSuperseded(t *testing.T) {
	smallLogs(t)
	trash := func(v string) error {
		return errors.Join(os.Mkdir(filepath.Join(v, layout.Trash), 0o755), os.Remove(filepath.Join(v, managerStateFile)),
			os.Rename(filepath.Join(v, managerData, "tok"), filepath.Join(v, layout.Trash, "tok")))
	}
	begin := func(v, token string) error {
		return errors.Join(os.MkdirAll(filepath.Join(v, managerData, token, memberDir), 0o755), managed(token).Write(v))
	}
	for name, c := range map[string]struct {
		program plan.Program
		then    func(volume string) error
		want    string // "": it is not obsolete
	}{
		"given back": {plan.EtcdManager, func(string) error { return nil }, ""},
		"restored":   {plan.EtcdManager, func(v string) error { return errors.Join(trash(v), begin(v, "new")) }, "cluster new"},
		"restored, trash emptied": {plan.EtcdManager, func(v string) error {
			return errors.Join(trash(v), begin(v, "new"), os.RemoveAll(filepath.Join(v, layout.Trash)))
		}, "cluster new"},
		"restoring":             {plan.EtcdManager, trash, "given up the data"},
		"founded beside":        {plan.EtcdManager, func(v string) error { return begin(v, "new") }, "cluster new"},
		"the state is deleted":  {plan.EtcdManager, func(v string) error { return os.Remove(filepath.Join(v, managerStateFile)) }, ""},
		"the state is no state": {plan.EtcdManager, func(v string) error { return os.WriteFile(filepath.Join(v, managerStateFile), []byte("x"), 0o600) }, ""},
		"all of it is deleted": {plan.EtcdManager, func(v string) error {
			return errors.Join(os.Remove(filepath.Join(v, managerStateFile)), os.RemoveAll(filepath.Join(v, managerData)))
		}, ""},
		"without the mark": {plan.EtcdManager, func(v string) error {
			return errors.Join(os.Remove(filepath.Join(v, originFile)), trash(v), begin(v, "new"))
		}, "cluster new"},
		"old trash": {plan.EtcdManager, func(v string) error {
			return errors.Join(os.Mkdir(filepath.Join(v, layout.Trash), 0o755), os.Symlink(managerLink, filepath.Join(v, layout.Trash, "old")))
		}, ""},
		"plain, given back": {plan.PlainEtcd, func(string) error { return nil }, ""},
		"plain, restored": {plan.PlainEtcd, func(v string) error {
			return errors.Join(os.Remove(filepath.Join(v, memberDir)), os.Mkdir(filepath.Join(v, memberDir), 0o700))
		}, "data of its own"},
		"plain, the link is gone": {plan.PlainEtcd, func(v string) error { return os.Remove(filepath.Join(v, memberDir)) }, ""},
	} {
		volume := layouts[c.program].on(t, threeOf36().data(t))
		o, err := ofThree.Origin(volume)
		check(t, err)
		check(t, ofThree.TakeUp(volume, *o))
		if c.program == plan.EtcdManager {
			check(t, ofThree.HandBack(volume, managed("tok")))
		}
		check(t, c.then(volume))
		why, err := ofThree.Superseded(volume)
		if err != nil || (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, why, err, c.want)
		}
	}
}
