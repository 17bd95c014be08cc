package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// These stories are about mistakes of someone who runs kops.

// Two of three masters change their image at the same time. Their flags name no members.
func TestTakeoverOfTwoMastersAtOnce(t *testing.T) {
	f := newHosts(t, kopsMain, false)
	f.seeded = true
	f.prepare()
	f.begin()
	f.twoAtOnce()
}

// Masters come back with etcd-manager after the takeover, without a release, as if kops had the old image again. Its
// etcd is too old for the data by then. Neither one nor two of them harm the cluster or found another one, and
// holdfast continues with the data that they leave.
func TestEtcdManagerComesBack(t *testing.T) {
	f := newFarm(t, false)
	for _, i := range f.leaderLast() {
		f.take(i)
	}
	f.healthy()
	f.agreed("3.7")
	order := f.leaderLast()
	back := func(i int, sign string) {
		t.Helper()
		f.seats[i].end()
		f.seats[i].start()
		integration.Until(t, 3*time.Minute, "an etcd-manager says: "+sign, func() error {
			for _, s := range f.seats {
				if s.elder.running() && strings.Contains(s.elder.said(), sign) {
					return nil
				}
			}
			return errors.New("none does")
		})
	}
	back(order[0], "etcd process exited")
	f.more(500)
	t.Logf("one is back; the longest gap was %s", f.longest())
	back(order[1], "etcd has 0 members registered")
	for _, i := range order[:2] {
		f.seats[i].end()
		f.seats[i].node.Start()
	}
	for _, i := range order[:2] {
		f.taken(i)
	}
	t.Logf("two were back; the longest gap was %s", f.longest())
	f.healthy()
	f.verify()
}

// Two masters found the cluster, and the third one joins it. Then a founder loses its disk, and etcd-manager replaces
// it. So neither the cluster's ID nor the members' IDs follow from names and token.
func TestTakeoverOfWhatTwoFounded(t *testing.T) {
	f := newHosts(t, kopsMain, false)
	f.prepare()
	for _, s := range f.seats[:2] {
		s.start()
	}
	f.answer(5*time.Minute, f.seats[0].url, f.seats[1].url)
	f.begin()
	s := f.seats[slices.DeleteFunc(f.leaderLast(), func(i int) bool { return i == 2 })[0]]
	s.cut()
	must(t, os.RemoveAll(s.data))
	must(t, os.Mkdir(s.data, 0o755))
	s.start()
	f.answer(5*time.Minute, s.url) // etcd-manager waits a minute before it removes a member
	founded := f.born
	if f.born = f.identity(t.Context()); founded.cluster != f.born.cluster || len(f.born.members) != 3 {
		t.Errorf("founded was %x, and there is %x", founded, f.born)
	}
	same := 0
	for id := range f.born.members {
		if founded.members[id] != "" {
			same++
		}
	}
	if same != 2 {
		t.Errorf("%d members are the same, want 2: %x, %x", same, founded.members, f.born.members)
	}
	f.longest()
	f.thereAndBack(func() {
		f.older()
		f.acquaint()
	})
}

// A restore was queued before the takeover, which waits until it is deleted. During and after the takeover, the store
// loses etcd-manager's mark, without which etcd-managers would found an empty cluster over this one. holdfast writes
// it again before one runs.
func TestTakeoverWithoutTheMark(t *testing.T) {
	f := newFarm(t, false)
	backup, mark := f.newest(), filepath.Join(f.Store, "control", "etcd-cluster-created")
	first := f.seats[2]
	first.end()
	f.ctl("restore-backup", backup) // a running etcd-manager looks for commands only when it begins to lead
	first.node.Start()
	integration.Until(t, time.Minute, "no takeover beside a queued command", func() error {
		self, err := first.node.Self()
		if err == nil && !strings.Contains(self.Why, "is queued in the backup store") {
			err = fmt.Errorf("it says %s: %s", self.Action, self.Why)
		}
		return err
	})
	f.ctl("delete-command", backup)
	f.taken(2)
	f.acquaint()
	for _, s := range f.seats[:2] { // a running etcd-manager may look before the mark is written again
		s.end()
	}
	must(t, os.Remove(mark))
	integration.Until(t, time.Minute, "holdfast writes the mark again", func() error {
		_, err := os.Stat(mark)
		return err
	})
	for _, s := range f.seats[:2] {
		s.start()
	}
	for _, s := range f.seats[:2] {
		f.serves(s.url)
	}
	f.more(50)
	f.take(1)
	f.take(0)
	f.healthy()
	f.older()
	must(t, os.Remove(mark))
	for _, i := range f.leaderLast() {
		f.letGo(i)
		if _, err := os.Stat(mark); err != nil {
			t.Fatal(err)
		}
		f.give(i)
	}
	f.verify()
}

// After the takeover, etcd-manager-ctl restores a backup of etcd-manager. Then the restored cluster is given back.
func TestReturnAfterRestore(t *testing.T) {
	f := newFarm(t, false)
	backup := f.newest()
	for _, i := range f.leaderLast() {
		f.take(i)
	}
	f.healthy()
	f.verify()
	first := f.born.cluster
	f.ctl("restore-backup", backup)
	integration.Until(t, 2*time.Minute, "holdfast restores it", func() error {
		for _, s := range f.seats {
			self, err := s.node.Self()
			if err != nil || self.Record == nil || self.Record.Generation != 2 || self.Etcd == nil || !self.Etcd.Confirmed {
				return fmt.Errorf("%s: %s: %w", self.Action, self.Why, err)
			}
		}
		return nil
	})
	f.healthy()
	f.traffic = newTraffic(t, f.over, f.urls...)
	f.more(50)
	if f.born.cluster == first {
		t.Errorf("the cluster is %x still", first)
	}
	f.older()
	f.acquaint()
	for _, i := range f.leaderLast() {
		f.release(i)
	}
	f.verify()
}
