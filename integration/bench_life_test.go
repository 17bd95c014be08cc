package integration_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/integration"
)

// These benchmarks have no rival, because plain etcd does none of this by itself.

// solo prints the result of each round, and the median, the lowest and the highest value of each column.
func solo(b *testing.B, count int, columns []string, measure func(round int) []float64) {
	fmt.Printf("\n== %s, load average %s\n%-16s", b.Name(), loadAverage(), "round")
	for _, c := range columns {
		fmt.Printf(" %15s", c)
	}
	fmt.Println()
	values := make([][]float64, len(columns))
	for i := range count {
		trial := measure(i)
		row(fmt.Sprint(i+1), "", trial)
		for j, v := range trial {
			values[j] = append(values[j], v)
		}
	}
	var middle, lowest, highest []float64
	for j, v := range values {
		middle, lowest, highest = append(middle, median(v)), append(lowest, slices.Min(v)), append(highest, slices.Max(v))
		b.ReportMetric(middle[j], columns[j])
		record(b.Name(), columns[j], v, nil)
	}
	row("median", "", middle)
	row("lowest", "", lowest)
	row("highest", "", highest)
	fmt.Printf("load average %s\n", loadAverage())
	b.ReportMetric(0, "ns/op") // the total time is meaningless
}

// benched makes a cluster and waits until it serves.
func benched(b *testing.B, o integration.Options, prepare func(*integration.Cluster)) *integration.Cluster {
	b.Helper()
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	c := integration.New(b, path, o)
	prepare(c)
	c.Start()
	c.Healthy()
	return c
}

// BenchmarkNodeLost measures how long it takes from the kill of a member's process until a standby holds its slot, and
// until every member serves. It does not include the time in which a cloud notices that the machine is gone and
// releases its disk: here the disk is free at once (volume.local.takeover-after is 0s).
func BenchmarkNodeLost(b *testing.B) {
	c := benched(b, integration.Options{Nodes: 4, Keys: map[string]any{
		"volume.local.scope": "machine", "volume.local.takeover-after": "0s",
	}}, func(c *integration.Cluster) {
		root := filepath.Join(c.Dir, "volumes")
		if err := os.Mkdir(root, 0o700); err != nil {
			b.Fatal(err)
		}
		for _, n := range c.Nodes {
			n.Root = root
			delete(n.Keys, "volume.local.slot")
		}
	})
	for b.Loop() {
		solo(b, rounds(9), []string{"taken-ms", "serving-ms"}, func(i int) []float64 {
			slot := c.Slots[i%len(c.Slots)]
			victim := c.Holder(slot)
			begin := time.Now()
			victim.Kill()
			c.Holder(slot)
			taken := time.Since(begin)
			c.Serving()
			served := time.Since(begin)
			victim.Start()
			c.Healthy()
			return []float64{milliseconds(taken), milliseconds(served)}
		})
	}
}

// BenchmarkDiskLost measures how long it takes from the start of a follower with a blank disk until it is a voter
// again. Meanwhile it is a learner, to which the leader sends the whole database.
func BenchmarkDiskLost(b *testing.B) {
	for _, mib := range []int{0, 1024} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			if mib > 0 && testing.Short() {
				b.Skip("takes minutes")
			}
			c := benched(b, integration.Options{Keys: map[string]any{"etcd.quota-backend-bytes": 4 << 30}}, func(*integration.Cluster) {})
			fillCluster(b, c, mib<<20)
			for b.Loop() {
				solo(b, rounds(5), []string{"member-ms", "serving-ms"}, func(int) []float64 {
					leader := c.Leader()
					i := slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n != leader })
					victim := c.Nodes[i]
					victim.Kill()
					victim.Wipe()
					begin := time.Now()
					victim.Start()
					c.Until(5*time.Minute, "the slot has a member again", func() error {
						if s, err := victim.Self(); err != nil || s.Etcd == nil {
							return fmt.Errorf("it has none: %s (%v)", s.Why, err)
						}
						return nil
					})
					member := time.Since(begin)
					c.Until(5*time.Minute, "every slot is served", c.Served)
					served := time.Since(begin)
					c.Healthy()
					return []float64{milliseconds(member), milliseconds(served)}
				})
			}
		})
	}
}

// fillCluster writes values of 64 KiB that do not compress, until they have this many bytes.
func fillCluster(b *testing.B, c *integration.Cluster, size int) {
	b.Helper()
	const each = 64 << 10
	client := mustDial(b, c.Endpoints()...)
	defer client.Close()
	var next atomic.Int64
	var writers sync.WaitGroup
	failed := make(chan error, 1)
	for range 8 {
		writers.Go(func() {
			value := make([]byte, each)
			for n := next.Add(1); int(n)*each <= size; n = next.Add(1) {
				rand.Read(value) // never fails
				if _, err := client.Put(b.Context(), fmt.Sprintf("fill/%08d", n), string(value)); err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
			}
		})
	}
	writers.Wait()
	select {
	case err := <-failed:
		b.Fatal(err)
	default:
	}
}

// BenchmarkResize measures how long it takes, after a change of the configuration on all nodes, until a cluster of
// three has five voters, and until it has three again.
func BenchmarkResize(b *testing.B) {
	three, five := []string{"a", "b", "c"}, []string{"a", "b", "c", "d", "e"}
	c := benched(b, integration.Options{Nodes: 5, Slots: three}, func(c *integration.Cluster) {
		for _, n := range c.Nodes {
			delete(n.Keys, "volume.local.slot")
		}
	})
	for b.Loop() {
		solo(b, rounds(5), []string{"to-five-ms", "to-three-ms"}, func(int) []float64 {
			var took []float64
			for _, slots := range [][]string{five, three} {
				begin := time.Now()
				want(c.Nodes, slots...)
				voters(c, slots...)
				took = append(took, milliseconds(time.Since(begin)))
				c.Healthy()
			}
			return took
		})
	}
}
