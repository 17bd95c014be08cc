package integration_test

import (
	"sync"
	"testing"
	"time"

	"holdfast/integration"
)

// stopBound is less than a hand-over to nobody takes, which is 7 s and the stop, and more than the 2 s that
// docs/operating.md promises for the end of a whole cluster may take on a busy machine. There a client without TLS that
// is slow to answer costs another 5 s: gRPC tells it that the server goes away, and waits for that long for the answer
// (grpc internal/transport/http2_server.go; 6.0 s with a client that is paused, 0.02 s without).
const stopBound = 6900 * time.Millisecond

// All nodes are told to stop at the same instant, under load: nobody hands over to somebody who is leaving as well, and
// nobody waits for a moment that will not come.
func TestStopAll(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	for range 3 {
		watch(t, c, 10)
		w := c.Write()
		w.More(50)
		var stopping sync.WaitGroup
		for _, n := range c.Nodes {
			stopping.Go(func() {
				took := n.Stop() // it wants exit code 0
				t.Logf("%s stopped in %s", n.Name, took.Round(time.Millisecond))
				if took > stopBound {
					t.Errorf("%s took %s to stop, want at most %s", n.Name, took, stopBound)
				}
			})
		}
		stopping.Wait()
		w.Stop()
		c.Start()
		c.Serving()
		w.Verify()
	}
}
