package cmd

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Signals within a second are one: the stop stays a clean one. A later one cuts it short.
func TestObey(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []time.Duration // of the signals
		want time.Duration   // of the exit, 0: none
	}{
		{"one", []time.Duration{0}, 0},
		{"two at once", []time.Duration{0, 5 * time.Millisecond}, 0},
		{"two within a second", []time.Duration{0, time.Second}, 0},
		{"two in earnest", []time.Duration{0, time.Second + time.Millisecond}, time.Second + time.Millisecond},
		{"a pair, and then one in earnest", []time.Duration{0, 5 * time.Millisecond, 3 * time.Second}, 3 * time.Second},
		{"without a pause", []time.Duration{0, 400 * time.Millisecond, 800 * time.Millisecond, 1200 * time.Millisecond}, 1200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				var begin, cancelled, exited time.Time
				cancels, code := 0, 0
				begin = time.Now()
				go func() {
					for _, at := range c.at {
						time.Sleep(at - time.Since(begin)) // virtual
						signals <- syscall.SIGTERM
					}
					close(signals)
				}()
				obey(signals, func() { cancels, cancelled = cancels+1, time.Now() }, func(c int) { code, exited = c, time.Now() })
				if cancels != 1 || !cancelled.Equal(begin) {
					t.Errorf("cancelled %d times, after %s", cancels, cancelled.Sub(begin))
				}
				switch {
				case c.want == 0 && code != 0:
					t.Errorf("exited after %s", exited.Sub(begin))
				case c.want != 0 && (code != 130 || exited.Sub(begin) != c.want):
					t.Errorf("exit code %d after %s, want 130 after %s", code, exited.Sub(begin), c.want)
				}
			})
		})
	}
}
