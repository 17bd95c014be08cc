package integration_test

import (
	"testing"
	"time"

	"holdfast/integration"
)

// BenchmarkRecover measures how long a cluster of three is without a write when two of its disks are lost, and an
// operator runs `holdfast recover` as soon as possible: from the loss to the first write, and from the command to the
// first write. Plain etcd has no comparable command.
func BenchmarkRecover(b *testing.B) {
	for b.Loop() {
		solo(b, rounds(5), []string{"lost-to-write-s", "command-to-write-s"}, func(int) []float64 { return recoverOnce(b) })
	}
}

// recoverOnce returns the seconds from the loss, and from the command, to the first write.
func recoverOnce(b *testing.B) []float64 {
	b.Helper()
	c := benched(b, integration.Options{}, func(*integration.Cluster) {})
	defer c.Kill()
	client := mustDial(b, c.Nodes[0].ClientURL())
	defer client.Close()
	put := func(count int) {
		for i := range count {
			if _, err := client.Put(b.Context(), "bench/"+string(rune('a'+i%26)), time.Now().String()); err != nil {
				b.Fatal(err)
			}
		}
	}
	put(500)
	begin := time.Now()
	for _, n := range c.Nodes[1:] {
		n.Kill()
		n.Wipe()
	}
	for {
		asked := time.Now()
		o := c.Nodes[0].Command("recover", "--lost", "b,c", "--yes")
		if o.Code == 0 {
			put(1)
			return []float64{time.Since(begin).Seconds(), time.Since(asked).Seconds()}
		}
		if time.Since(begin) > time.Minute {
			b.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
		}
	}
}
