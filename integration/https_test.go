package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// The clients of a cluster that was founded without TLS change to TLS one after the other, without a pause. The nodes
// are restarted one by one to serve both, and then only TLS. The members keep their URLs. No acknowledged write is
// lost, and in the end http is refused. One node is killed in the middle of each change.
func TestClientsFromHTTPToHTTPS(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	c.Start()
	c.Healthy()
	before := c.Members()
	old := c.Write()
	old.More(50)

	ca := filepath.Join(c.Dir, "ca")
	authorities(t, c.Nodes[0], ca)
	roll := func(keys map[string]any) {
		t.Helper()
		for i, n := range c.Nodes {
			maps.Copy(n.Keys, keys)
			if i == 1 {
				n.Kill()
			} else {
				n.Stop()
			}
			n.Start()
			c.Healthy()
		}
	}
	roll(map[string]any{"tls.ca-dir": ca, "tls.clients-only": true, "tls.plain-clients": true, "tls.insecure": true})
	old.More(50)
	c.TLS = clientTLS(t, c, c.Nodes[0], "story")
	secure := c.Write()
	secure.More(50)
	old.Stop()
	old.Verify()

	roll(map[string]any{"tls.plain-clients": false})
	secure.More(50)
	secure.Stop()
	secure.Verify()
	old.Verify()
	t.Logf("longest time without an acknowledgement: %v over http, %v over https", old.Gap(), secure.Gap())

	for slot, m := range c.Members() {
		if was := before[slot]; m != was {
			t.Errorf("slot %s is member %+v, and was %+v", slot, m, was)
		}
	}
	c.TLS = nil
	if _, err := c.ReadMembers(); err == nil {
		t.Error("a client without TLS is still served")
	}
}

// The members of a cluster that was founded without TLS change to https while clients write over http. A node that
// goes back to http too early does not start its member, nor does one that gives up http too early, and the others
// serve. Nodes are killed at every step of the change, the leader and followers. No acknowledged write is lost. Then a
// disk is lost and a backup restored.
func TestMembersFromHTTPToHTTPS(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	c.Start()
	c.Healthy()
	before := c.Members()
	w := c.Write()
	w.More(50)
	ca := filepath.Join(c.Dir, "ca")
	authorities(t, c.Nodes[0], ca)
	restart := func(n *integration.Node) {
		t.Helper()
		n.Stop()
		n.Start()
	}

	// The pause keeps the URLs while a node gets a configuration that is too early.
	done(t, c.Nodes[0], "pause", "--reason", "the way to https")
	k := killAtEach(t, "before-note", "after-note")
	k.all = true
	for _, n := range c.Nodes {
		// Each by its own account: until the last one has TLS, they do not hear each other in the gossip.
		c.Until(patience, "all serve", func() error { return everywhere(c, serves) })
		schemes(n, ca, true, true)
		n.Stop()
		k.start(n)
	}
	k.until("all have promised, and serve", func() error { // each promises while all serve
		for _, n := range c.Nodes {
			if err := secured(n); err != nil {
				return err
			}
		}
		return c.Served()
	})
	n := c.Nodes[1]
	for _, early := range []struct {
		http, https bool
		says        string
	}{{true, false, "its disk has noted that it serves the other members"}, {false, true, "set tls.from-http to true"}} {
		schemes(n, ca, early.http, early.https)
		restart(n)
		says(c, n, early.says)
		w.More(20)
	}
	schemes(n, ca, true, true)
	restart(n)

	// Leaders are killed at an update, and the nodes that led then at the note of their own disks.
	k = killAtEach(t, "before-update", "after-update", "before-note", "after-note")
	for _, n := range c.Nodes {
		c.Serving()
		n.Stop()
		k.start(n)
	}
	c.Serving()
	if out := c.Nodes[0].Command("resume"); out.Code != 0 { // it began the change, and was killed before it had answered
		c.Nodes[0].Exit(patience)
	}
	k.until("every member has an https URL, and every disk has noted it", func() error {
		for _, n := range c.Nodes {
			s, err := n.Self()
			if err != nil {
				return err
			}
			if !strings.Contains(strings.Join(health.Texts(s.Found), "; "), "remove tls.from-http") {
				return fmt.Errorf("%s says %s; %v", n.Name, s.Why, health.Texts(s.Found))
			}
		}
		return nil
	})
	t.Logf("killed: %v", k.deaths)
	for _, n := range c.Nodes { // otherwise a node that was not killed would be, at a later step
		restart(n)
		c.Healthy()
	}
	w.More(50)
	https(t, c, before)

	lost := c.Nodes[2]
	lost.Kill()
	lost.Wipe()
	lost.Start()
	c.Healthy()
	before = c.Members()
	for i, n := range c.Nodes {
		schemes(n, ca, false, true)
		if i == 1 {
			n.Kill()
			n.Start()
		} else {
			restart(n)
		}
		c.Healthy()
	}
	w.More(50)
	w.Stop()
	w.Verify()
	https(t, c, before)
	t.Logf("longest time without an acknowledgement: %v", w.Gap())

	done(t, c.Nodes[0], "snapshot", "save")
	done(t, c.Nodes[0], "restore", "latest", "--yes")
	c.Healthy()
	w.Verify()
	https(t, c, nil)
}

// A majority is lost for good in the middle of the change. The survivor continues with whatever URL it had, and the
// next generation has https from the start.
func TestRecoverBetweenSchemes(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	c.Start()
	c.Healthy()
	ca := filepath.Join(c.Dir, "ca")
	authorities(t, c.Nodes[0], ca)
	w := c.Write()
	w.More(50)
	for _, n := range c.Nodes {
		schemes(n, ca, true, true)
		n.Stop()
		n.Start(killAt + "after-update") // whichever leads then
	}
	var survivor *integration.Node
	var lost []string
	c.Until(2*time.Minute, "two leaders have changed a URL, and died of it", func() error {
		survivor, lost = nil, nil
		for _, n := range c.Nodes {
			if n.Running() {
				survivor = n
			} else {
				lost = append(lost, n.Keys["volume.local.slot"].(string))
			}
		}
		if len(lost) != 2 {
			return fmt.Errorf("of %v", lost)
		}
		return nil
	})
	w.Stop()
	for _, n := range c.Nodes {
		if n != survivor {
			n.Wipe()
		}
	}
	c.Until(2*time.Minute, "the survivor continues", func() error {
		if out := survivor.Command("recover", "--lost", strings.Join(lost, ","), "--yes"); out.Code != 0 {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
	for _, n := range c.Nodes {
		if n != survivor {
			n.Start()
		}
	}
	c.Healthy()
	https(t, c, nil)
	for _, n := range c.Nodes {
		schemes(n, ca, false, true)
		n.Stop()
		n.Start()
		c.Healthy()
	}
	https(t, c, nil)
}

// schemes makes a node serve its peers with http, TLS, or both, and its clients with both if it has TLS.
func schemes(n *integration.Node, ca string, http, https bool) {
	var listen []string
	if http {
		listen = append(listen, "http://"+n.Address+":2380")
	}
	if https {
		listen = append(listen, "https://"+n.Address+":2381")
	}
	n.Keys["etcd.listen-peer-urls"], n.Keys["tls.from-http"], n.Keys["tls.plain-clients"] = listen, http && https, https
	if n.Keys["tls.ca-dir"] = ca; !https {
		n.Keys["tls.ca-dir"] = ""
	}
}

// secured returns nil if a node's disk has noted that the node serves https.
func secured(n *integration.Node) error {
	data, err := os.ReadFile(filepath.Join(n.Volume(), "founding.json"))
	if err == nil && !strings.Contains(string(data), `"secured"`) {
		err = errors.New(string(data))
	}
	return err
}

// https checks that every member has only a peer URL with TLS, and still has its ID.
func https(t *testing.T, c *integration.Cluster, before map[string]integration.Member) {
	t.Helper()
	for slot, m := range c.Members() {
		if !strings.HasPrefix(m.PeerURL, "https://"+slot+".") || strings.Contains(m.PeerURL, ",") || before != nil && before[slot].ID != m.ID {
			t.Errorf("slot %s is member %+v, and was %+v", slot, m, before[slot])
		}
	}
}
