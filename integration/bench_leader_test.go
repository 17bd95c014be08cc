package integration_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/hosts"
	"holdfast/volume/device/devicetest"
)

// BenchmarkLeaderGone compares the longest time without a write when the leader's machine vanishes: its connections
// are not reset, and nothing reaches it any more.
func BenchmarkLeaderGone(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("hosts in network namespaces need root")
	}
	network, err := hosts.New(hosts.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { network.Close() })
	deprive(b, newRivalsOn(b, network, false), func(leader server) (mend func()) {
		host := hostOf(leader)
		if err := host.Isolate(); err != nil {
			b.Fatal(err)
		}
		return func() {
			if err := host.Rejoin(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func hostOf(s server) *hosts.Host {
	if p, ok := s.(*plain); ok {
		return p.host
	}
	return s.(*integration.Node).Host
}

// BenchmarkLeaderPaused does the same when the leader's process is suspended: the kernel still accepts connections for
// it.
func BenchmarkLeaderPaused(b *testing.B) {
	deprive(b, newRivals(b), func(leader server) (mend func()) {
		leader.Signal(syscall.SIGSTOP)
		return func() { leader.Signal(syscall.SIGCONT) }
	})
}

// BenchmarkLeaderStalled does the same when writes to the leader's disk hang without an error.
func BenchmarkLeaderStalled(b *testing.B) {
	rivals := newRivals(b)
	disks := ownDisks(b, rivals)
	deprive(b, rivals, func(leader server) (mend func()) { return devicetest.Freeze(b, disks[leader]) })
}

// ownDisks gives each server a disk of its own, and returns the mount points.
func ownDisks(b *testing.B, rivals []*rival) map[server]string {
	b.Helper()
	disks := map[server]string{}
	for _, r := range rivals {
		for _, s := range r.servers {
			disks[s] = devicetest.New(b, 3*devicetest.Small).Mount(b)
			if p, ok := s.(*plain); ok {
				p.data = filepath.Join(disks[s], "etcd")
			} else {
				s.(*integration.Node).Root = filepath.Join(disks[s], "volumes")
			}
		}
		b.Cleanup(r.kill) // before the disks are removed
	}
	return disks
}

// deprive starts the rivals, and takes the leader away from each again and again.
func deprive(b *testing.B, rivals []*rival, befall func(leader server) (mend func())) {
	startAll(b, rivals)
	for b.Loop() {
		d := newDuel(b, "gap-ms", "gap-before-ms", "failed")
		d.fight(rounds(15), rivals, func(r *rival) []float64 {
			time.Sleep(calm)
			return loseLeader(b, r, func(leader server) func() {
				begin, mend := time.Now(), befall(leader)
				return func() { time.Sleep(time.Until(begin.Add(lasting))); mend() }
			}, 0)[:3]
		})
		d.report()
	}
}
