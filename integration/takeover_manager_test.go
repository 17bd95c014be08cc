package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// A cluster of etcd-manager moves to holdfast, host by host and the leader last, while clients write, and back.
func TestTakeoverOfEtcdManager(t *testing.T) {
	f := newFarm(t, true)
	f.thereAndBack(f.older)
}

// The same with etcd-manager's store, which knows the cluster and its backups. The members know each other's names, as
// the documentation asks for.
func TestTakeoverOfEtcdManagerWithStore(t *testing.T) {
	f := newFarm(t, false)
	f.thereAndBack(func() {
		f.older()
		f.acquaint()
	})
}

// After one host the operator changes his mind.
func TestTakeoverChangeOfMind(t *testing.T) {
	f := newFarm(t, true)
	order := f.leaderLast()
	f.take(order[0])
	f.more(100)
	f.give(order[0])
	f.verify()
}

// Both programs run on one host, in both orders.
func TestTakeoverOfEtcdManagerFenced(t *testing.T) {
	f := newFarm(t, true)
	f.fenced(0)
	f.give(0)
	f.verify()
}

// The power is cut on all hosts while two programs run the cluster.
func TestTakeoverPowerCut(t *testing.T) {
	f := newFarm(t, true)
	f.take(0)
	f.more(100)
	for _, n := range f.Nodes {
		must(t, n.Host.Kill())
	}
	for i, s := range f.seats {
		s.cut()
		if i == 0 {
			s.node.Start()
		} else {
			s.start()
		}
	}
	f.taken(0)
	f.serves(f.seats[1].url)
	f.serves(f.seats[2].url)
	f.t.Logf("the longest gap was %s", f.longest())
	f.take(1)
	f.take(2)
	f.healthy()
	f.verify()
}

// A host is killed at each step of the takeover.
func TestKillWhileTakingEtcdManagerOver(t *testing.T) {
	eachTurn(t, func(t *testing.T, turn int) { newFarm(t, true).killAtEachStep(turn) })
}

// A host is killed at each step of the release, while the members know each other's names, as the documentation asks
// for.
func TestKillWhileGivingEtcdManagerBack(t *testing.T) {
	eachTurn(t, func(t *testing.T, turn int) {
		f := newFarm(t, false)
		f.killWhileGivingBack(turn, func() {
			f.older()
			f.acquaint()
		})
	})
}

// A restore that etcd-manager-ctl queues while two programs run the cluster is refused, and shown.
func TestRestoreWhileTakingOver(t *testing.T) {
	f := newFarm(t, false)
	backup := f.newest()
	f.take(0)
	f.ctl("restore-backup", backup)
	integration.Until(t, time.Minute, "the restore is refused, and shown", func() error {
		self, err := f.seats[0].node.Self()
		if err == nil && !strings.Contains(self.Why, "is not carried out") {
			err = fmt.Errorf("it says %s: %s", self.Action, self.Why)
		}
		return err
	})
	f.ctl("delete-command", backup) // otherwise etcd-manager carries it out as soon as it leads elsewhere, and splits the cluster
	f.more(300)
	f.take(1)
	f.take(2)
	f.more(100)
	f.verify()
}

// newest waits for a backup that etcd-manager-ctl lists, and returns the newest.
func (f *farm) newest() (backup string) {
	f.t.Helper()
	integration.Until(f.t, time.Minute, "etcd-manager-ctl lists a backup", func() error {
		for line := range strings.Lines(f.ctl("list-backups")) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "20") {
				backup = max(backup, line) // names begin with the time
			}
		}
		if backup == "" {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	return backup
}

// The cluster is given back, and etcd-manager restores it into another cluster, from a backup that holdfast has made.
// That cluster is taken over with the same store and the same disks. The data of the first cluster is in the way until
// it is moved.
func TestTakeoverAfterRestoreOfEtcdManager(t *testing.T) {
	f := newFarm(t, false)
	for _, i := range f.leaderLast() {
		f.take(i)
	}
	f.healthy()
	f.older()
	f.acquaint()
	for _, i := range f.leaderLast() {
		f.release(i)
	}
	f.verify()

	backup, first := f.newest(), f.born.cluster
	f.ctl("restore-backup", backup)
	for _, s := range f.seats { // etcd-manager looks for commands when it begins to lead
		s.end()
		s.start()
	}
	t.Logf("etcd-manager restores %s", backup)
	integration.Until(t, 10*time.Minute, "etcd-manager has made another cluster", func() error {
		for _, url := range f.urls {
			if err := answers(f.over, url); err != nil {
				return err
			}
			c := f.dial(url)
			list, err := c.MemberList(t.Context())
			c.Close()
			if err != nil || list.Header.ClusterId == first || len(list.Members) != len(f.seats) {
				return fmt.Errorf("%s says %v: %v", url, list, err)
			}
		}
		return nil
	})
	f.agreed("3.6")
	kept, err := f.dial(f.urls...).Get(t.Context(), trafficPrefix+"leased")
	if err != nil || len(kept.Kvs) != 1 {
		t.Fatalf("the restored cluster has %+v: %v", kept, err)
	}

	f.traffic = newTraffic(t, f.over, f.urls...)
	f.more(50)
	for _, i := range f.leaderLast() {
		s := f.seats[i]
		s.end()
		s.node.Start()
		integration.Until(t, time.Minute, "the data of the first cluster is in the way", func() error {
			self, err := s.node.Self()
			if err == nil && !strings.Contains(self.Why, "move etcd, origin.json and founding.json away") {
				err = fmt.Errorf("it says %s: %s", self.Action, self.Why)
			}
			return err
		})
		s.end()
		aside := filepath.Join(s.data, "first-cluster")
		must(t, os.Mkdir(aside, 0o700))
		for _, name := range []string{"etcd", "origin.json", "founding.json"} {
			must(t, os.Rename(filepath.Join(s.data, name), filepath.Join(aside, name)))
		}
		f.take(i)
	}
	f.healthy()
	f.verify()
	if f.born.cluster == first {
		t.Errorf("the cluster is %x still", first)
	}
}

// kops has main and events on the same machines. Both move to holdfast at the same time, host by host, and back, while
// clients write to both. Each has its own ports, volumes and directories there.
func TestTakeoverOfMainAndEvents(t *testing.T) { takenAtOnce(t, kopsMain, kopsEvents) }

// The same with kops' other two clusters.
func TestTakeoverOfCiliumAndLeases(t *testing.T) { takenAtOnce(t, kopsCilium, kopsLeases) }

func takenAtOnce(t *testing.T, one, other kops) {
	f := newFarmOf(t, one, true)
	both := []*farm{f, f.beside(other)}
	each := func(do func(*farm)) {
		t.Helper()
		for _, f := range both {
			do(f)
		}
	}
	order := f.leaderLast()
	for _, i := range order {
		each(func(f *farm) { f.seats[i].end() })
		each(func(f *farm) { f.seats[i].node.Start() })
		each(func(f *farm) { f.taken(i) })
		each(func(f *farm) { t.Logf("%s: slot %s was taken over, gap %s", f.Name, f.Slots[i], f.longest()) })
	}
	each(func(f *farm) { f.healthy() })
	each(func(f *farm) { f.more(50) })
	each(func(f *farm) { f.older() })
	each(func(f *farm) { f.acquaint() })
	for _, i := range f.leaderLast() {
		each(func(f *farm) { f.letGo(i) })
		each(func(f *farm) { f.seats[i].end() })
		each(func(f *farm) { f.seats[i].start() })
		each(func(f *farm) { f.serves(f.seats[i].url) })
		each(func(f *farm) { t.Logf("%s: slot %s was given back, gap %s", f.Name, f.Slots[i], f.longest()) })
	}
	each(func(f *farm) { f.verify() })
}
