package durable

import (
	"testing"
	"testing/synctest"
	"time"
)

// What hangs is left behind, and what answers in time is not.
func TestSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		begin := time.Now()
		if n, ok := Soon(time.Second, func() int { <-dead; return 1 }); ok || n != 0 || time.Since(begin) != time.Second {
			t.Errorf("hangs: got %d, %v after %s", n, ok, time.Since(begin))
		}
		close(dead)
		if n, ok := Soon(time.Second, func() int { time.Sleep(time.Second / 2); return 1 }); !ok || n != 1 {
			t.Errorf("is slow: got %d, %v", n, ok)
		}
	})
}
