package integration_test

import (
	"os"
	"testing"
	"time"
)

// BenchmarkBootstrap compares how long it takes from the start of three processes with blank disks until each of them
// has acknowledged a write.
func BenchmarkBootstrap(b *testing.B) {
	for b.Loop() {
		d := newDuel(b, "serving-ms")
		for i := range rounds(9) {
			rivals := newRivals(b)
			if i%2 == 1 {
				rivals[0], rivals[1] = rivals[1], rivals[0]
			}
			d.fight(1, rivals, func(r *rival) []float64 {
				begin := time.Now()
				r.start()
				r.serving(b)
				took := time.Since(begin)
				r.kill()
				return []float64{milliseconds(took)}
			})
			if err := os.RemoveAll(rivals[0].dir); err != nil { // etcd has reserved half a gigabyte there
				b.Fatal(err)
			}
		}
		d.report()
	}
}
