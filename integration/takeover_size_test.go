package integration_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"sync"
	"time"
)

// database is the size of the databases in the stories of takeovers. Filling them takes a while, and several times as
// much room on the disk, so such a run is not for every day.
var database = flag.Int("database", 0, "MiB in the other program's cluster before it is taken over; 0: next to nothing")

// quota is etcd's quota for it; 0 is the default.
func quota() int64 {
	if *database == 0 {
		return 0
	}
	return 8 << 30 // the most that etcd recommends
}

const (
	filler      = 256 << 10 // bytes of a value
	fillWriters = 4
)

// fill writes until the database has this size. The values do not compress, so a backup is as large.
func (w *traffic) fill() {
	if *database == 0 {
		return
	}
	w.t.Helper()
	begun, next := time.Now(), make(chan int)
	var writers sync.WaitGroup
	for range fillWriters {
		writers.Go(func() {
			value := make([]byte, filler)
			for i := range next {
				_, _ = rand.Read(value) // never fails
				ctx, cancel := context.WithTimeout(w.t.Context(), patience)
				_, err := w.client.Put(ctx, fmt.Sprintf("filler/%08d", i), string(value))
				cancel()
				if err != nil {
					w.t.Errorf("fill the database: %v", err)
				}
			}
		})
	}
	for i := range *database << 20 / filler {
		if w.t.Failed() {
			break
		}
		next <- i
	}
	close(next)
	writers.Wait()
	status, err := w.client.Status(w.t.Context(), w.urls[0])
	must(w.t, err)
	w.t.Logf("the database has %d MiB after %s", status.DbSize>>20, time.Since(begun).Round(time.Second))
}
