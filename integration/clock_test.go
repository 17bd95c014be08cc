package integration_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/integration/tier"
)

// The clocks of all machines are a month ahead when the cluster is founded. They are corrected under writes: within a
// minute every node has a certificate that counts, and every node can start. Then one starts eleven years ahead, and
// takes the authorities for expired: it replaces them for nobody, and is back when its clock is.
func TestClocksThatAreSet(t *testing.T) {
	tier.Long(t, "TestClockFarAhead of embedded/pki and TestNextAuthorities of its package authorities decide the same")
	if runtime.GOARCH != "amd64" {
		t.Skip("only the runtime for amd64 is changed")
	}
	story(t)
	binary, err := integration.BuildWithClock(t.TempDir())
	must(t, err)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "auto", "tls.leaf-life": "2m"}})
	set := func(n *integration.Node, ahead time.Duration) {
		t.Helper()
		path := filepath.Join(n.Dir, "clock")
		must(t, os.WriteFile(path+".next", []byte(strconv.Itoa(int(ahead.Seconds()))), 0o600))
		must(t, os.Rename(path+".next", path))
	}
	start := func(n *integration.Node) {
		t.Helper()
		n.Start(integration.ClockVariable + "=" + filepath.Join(n.Dir, "clock"))
	}
	const day = 24 * time.Hour
	for _, n := range c.Nodes {
		n.Binary = binary
		set(n, 30*day)
		start(n)
	}
	c.Healthy()
	for _, n := range c.Nodes {
		set(n, 0)
	}
	c.Until(time.Minute, "every certificate counts after the correction", func() error {
		return everyLeaf(c, func(cert *x509.Certificate) error {
			if cert.NotBefore.After(time.Now()) {
				return fmt.Errorf("one begins at %s", cert.NotBefore)
			}
			return nil
		})
	})
	c.Healthy()
	c.TLS = clientTLS(t, c, c.Nodes[0], "story")
	w := c.Write()
	w.More(10)
	last := c.Nodes[2]
	last.Stop()
	set(last, 11*365*day)
	start(last)
	c.Until(3*time.Minute, "it waits until its clock is right", func() error {
		s, err := last.Self()
		if said := strings.Join(health.Texts(s.Found), "\n"); err == nil && !strings.Contains(said, "until this node's clock agrees") {
			err = errors.New(said)
		}
		return err
	})
	if all, err := filepath.Glob(filepath.Join(c.Store, "holdfast", c.Name, "pki-*")); err != nil || len(all) != 1 {
		t.Errorf("editions of the authorities: %v, %v", all, err)
	}
	w.More(10)
	set(last, 0)
	c.Healthy()
	w.Stop()
	w.Verify()
}
