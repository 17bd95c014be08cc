package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// met waits until each of these nodes sees all others as live.
func met(c *integration.Cluster, nodes ...*integration.Node) {
	c.Until(90*time.Second, "all nodes hear each other", func() error {
		for _, n := range nodes {
			s, err := n.Status()
			if err != nil {
				return err
			}
			live := 0
			for _, m := range s.Nodes {
				if m.Live {
					live++
				}
			}
			if live != len(nodes) {
				return fmt.Errorf("%s hears %d of %d", n.Name, live, len(nodes))
			}
		}
		return nil
	})
}

// The gossip uses TLS with the peers' authority alone. A node of another authority stays outside and says so, an
// observer needs a certificate, and while the authority is replaced no node is ever lost.
func TestGossipOverTLS(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 4})
	authorities, foreign := filepath.Join(c.Dir, "ca"), filepath.Join(c.Dir, "foreign")
	for _, dir := range []string{authorities, foreign} {
		if out := c.Nodes[0].Holdfast("tls", "init", dir); out.Code != 0 {
			t.Fatalf("tls init: %+v", out)
		}
	}
	c.Set("tls.mode", "ca")
	c.Set("tls.ca-dir", authorities)
	c.Set("tls.leaf-life", "2m")
	n1, stranger := c.Nodes[0], c.Nodes[3]
	for _, n := range c.Nodes[:3] {
		n.Start()
	}
	c.Healthy()
	met(c, c.Nodes[:3]...)

	stranger.Keys["tls.ca-dir"] = foreign
	stranger.Start()
	for _, n := range []*integration.Node{n1, stranger} {
		c.Until(patience, n.Name+" tells of the other authority", func() error {
			s, err := n.Self()
			if text := strings.Join(health.Texts(s.Found), "\n"); err == nil && !strings.Contains(text, "certificate") {
				err = fmt.Errorf("it says %q", text)
			}
			return err
		})
	}
	met(c, c.Nodes[:3]...)
	stranger.Stop()
	delete(stranger.Keys, "tls.ca-dir")
	stranger.Start() // now it is a standby
	met(c, c.Nodes...)

	alone := c.Observe(21, "--endpoints", "endpoints", "--once", "--tls.mode", "auto")
	alone.Start()
	if code := alone.Exit(20 * time.Second); code == 0 || !strings.Contains(alone.Log(), "holdfast tls observer") {
		t.Errorf("an observer without a certificate: got exit code %d\n%s", code, alone.Log())
	}
	file := filepath.Join(c.Dir, "observer.pem")
	done(t, n1, "tls", "observer", "kubelet", "--to", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the observer's file: %v, %v", info, err)
	}
	if out := n1.Command("tls", "observer", "kubelet", "--to", file); out.Code == 0 {
		t.Errorf("written over a file: %+v", out)
	}
	o := c.Observe(22, "--endpoints", "endpoints", "--once", "--gossip.observer-file", file)
	o.Start()
	if code := o.Exit(30 * time.Second); code != 0 {
		t.Errorf("an observer with a certificate: got exit code %d\n%s", code, o.Log())
	}

	// A new authority is added beside the old one, which then no longer signs, and is removed.
	next := filepath.Join(c.Dir, "next")
	if out := n1.Holdfast("tls", "init", next); out.Code != 0 {
		t.Fatalf("tls init: %+v", out)
	}
	old := map[string][]byte{}
	for _, name := range []string{"etcd-clients-ca", "etcd-peers-ca"} {
		fresh, err := os.ReadFile(filepath.Join(next, name+".crt"))
		must(t, err)
		old[name], err = os.ReadFile(filepath.Join(authorities, name+".crt"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(authorities, name+".crt"), append(fresh, old[name]...), 0o600))
		must(t, os.Rename(filepath.Join(next, name+".key"), filepath.Join(authorities, name+".key")))
	}
	lost := func() (n int) {
		for _, m := range c.Nodes {
			n += strings.Count(m.Log(), `"msg":"lost node"`)
		}
		return n
	}
	before := lost()
	c.Until(3*time.Minute, "every member presents a certificate of the new authority", func() error {
		for _, n := range c.Nodes[:3] {
			out := n.Command("tls", "show", "-o", "json")
			if strings.Count(out.Out, "reload") > 0 || out.Code != 0 {
				return fmt.Errorf("%+v", out)
			}
		}
		return c.Fit()
	})
	met(c, c.Nodes...)
	if n := lost(); n != before {
		t.Errorf("%d nodes were lost meanwhile", n-before)
	}
	c.Healthy()
}
