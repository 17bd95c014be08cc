package integration_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"

	"github.com/miekg/dns"
)

const zone = "story.holdfast.internal"

// dig asks a server one question over UDP, and returns the addresses, or host:port of SRV records.
func dig(server, name string, kind uint16) ([]string, error) {
	m, _, err := new(dns.Client).Exchange(new(dns.Msg).SetQuestion(name+".", kind), server)
	if err != nil {
		return nil, err
	}
	if m.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("%s: %s", name, dns.RcodeToString[m.Rcode])
	}
	var answers []string
	for _, r := range m.Answer {
		switch b := r.(type) {
		case *dns.A:
			answers = append(answers, b.A.String())
		case *dns.SRV:
			answers = append(answers, fmt.Sprintf("%s:%d", b.Target, b.Port))
		}
	}
	return answers, nil
}

// told is an observer's view by its three outputs, as slot -> address.
type told struct{ hosts, endpoints, dns map[string]string }

func (s told) String() string {
	return fmt.Sprintf("hosts %v, endpoints %v, dns %v", s.hosts, s.endpoints, s.dns)
}

func outputs(o *integration.Observer, server string, slots []string) (s told, err error) {
	s = told{map[string]string{}, map[string]string{}, map[string]string{}}
	hosts, err := os.ReadFile(filepath.Join(o.Dir, "hosts"))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(hosts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], "."+zone) {
			s.hosts[strings.TrimSuffix(f[1], "."+zone)] = f[0]
		}
	}
	data, err := os.ReadFile(filepath.Join(o.Dir, "endpoints"))
	if err != nil {
		return s, err
	}
	var document struct {
		Members []struct {
			Slot, Address string
			Clients       []string
		}
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return s, fmt.Errorf("%s: %w", data, err)
	}
	for _, m := range document.Members {
		if len(m.Clients) != 1 || m.Clients[0] != "http://"+m.Address+":2379" {
			return s, fmt.Errorf("client URLs of %s at %s are %v", m.Slot, m.Address, m.Clients)
		}
		s.endpoints[m.Slot] = m.Address
	}
	for _, slot := range slots {
		a, err := dig(server, slot+"."+zone, dns.TypeA)
		if err != nil {
			return s, err
		}
		s.dns[slot] = strings.Join(a, ",")
	}
	return s, nil
}

// follows waits until all three outputs have the addresses in want.
func follows(c *integration.Cluster, o *integration.Observer, server string, want map[string]string, within time.Duration) {
	slots := make([]string, 0, len(want))
	for slot := range want {
		slots = append(slots, slot)
	}
	c.Until(within, "all outputs follow", func() error {
		got, err := outputs(o, server, slots)
		if err != nil {
			return err
		}
		for _, m := range []map[string]string{got.hosts, got.endpoints, got.dns} {
			if fmt.Sprint(m) != fmt.Sprint(want) {
				return fmt.Errorf("got %s, want %v", got, want)
			}
		}
		return nil
	})
}

const theirHosts = "127.0.0.1\tlocalhost\n# a comment, and no newline at the end"

// watched makes an observer with all outputs. Its hosts file has lines of others.
func watched(t *testing.T, c *integration.Cluster, i int) (*integration.Observer, string) {
	t.Helper()
	o := c.Observe(i, "--hosts", "hosts", "--endpoints", "endpoints", "--format", "json", "--dns", c.Address(i)+":0")
	must(t, os.WriteFile(filepath.Join(o.Dir, "hosts"), []byte(theirHosts), 0o640))
	o.Start()
	return o, o.DNS()
}

// When a member moves to another node, all outputs follow. When all nodes die, the outputs stay.
func TestDiscoverFollows(t *testing.T) {
	story(t)
	shared := t.TempDir()
	c := cluster(t, integration.Options{Nodes: 4, Keys: map[string]any{
		"volume.local.scope": "machine", "volume.local.takeover-after": "1s", "volume.local.root": shared,
	}})
	for _, n := range c.Nodes {
		delete(n.Keys, "volume.local.slot")
		n.Root = shared
	}
	o, server := watched(t, c, 21)
	if _, err := dig(server, "a."+zone, dns.TypeA); err == nil || !strings.Contains(err.Error(), "SERVFAIL") {
		t.Errorf("before anything is known: got %v, want ServerFailure", err)
	}
	c.Start()
	c.Serving()
	where := map[string]string{}
	for _, slot := range c.Slots {
		where[slot] = c.Holder(slot).Address
	}
	follows(c, o, server, where, 10*time.Second)

	srv, err := dig(server, "_etcd-client._tcp."+zone, dns.TypeSRV)
	if want := []string{"a." + zone + ".:2379", "b." + zone + ".:2379", "c." + zone + ".:2379"}; err != nil || !slices.Equal(srv, want) {
		t.Errorf("SRV: got %v, %v, want %v", srv, err, want)
	}
	if all, err := dig(server, zone, dns.TypeA); err != nil || len(all) != 3 {
		t.Errorf("the cluster's name: got %v, %v, want 3 addresses", all, err)
	}

	gone := c.Holder("b")
	gone.Kill()
	c.Until(patience, "another node runs the member", func() error {
		for _, n := range c.Running() {
			s, err := n.Self()
			if err == nil && s.Volume != nil && s.Volume.Slot == "b" && s.Etcd != nil {
				where["b"] = n.Address
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(c.Running()))
	})
	began := time.Now()
	follows(c, o, server, where, 3*time.Second)
	t.Logf("all three outputs followed %s after the member runs", time.Since(began).Round(10*time.Millisecond))

	c.Kill()
	c.Until(patience, "the observer notices", func() error {
		if n := strings.Count(o.Log(), `"msg":"lost node"`); n < 4 {
			return fmt.Errorf("it has lost %d nodes", n)
		}
		return nil
	})
	follows(c, o, server, where, time.Second)
	o.Signal(syscall.SIGHUP)
	o.Signal(syscall.SIGTERM)
	if code := o.Exit(10 * time.Second); code != 0 {
		t.Errorf("exit code after SIGTERM: got %d, want 0", code)
	}
	hosts, err := os.ReadFile(filepath.Join(o.Dir, "hosts"))
	must(t, err)
	if !strings.HasPrefix(string(hosts), theirHosts+"\n# BEGIN ") {
		t.Errorf("hosts file: got %q", hosts)
	}
	if info, err := os.Stat(filepath.Join(o.Dir, "hosts")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode: got %v, %v, want 0640", info.Mode(), err)
	}

	// A later process that hears no node begins with the content of the files.
	o.Start()
	follows(c, o, o.DNS(), where, 5*time.Second)
}

// The observer is killed again and again while it writes. A reader of the hosts file always finds it complete.
func TestDiscoverIsNeverTorn(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	o := c.Observe(21, "--hosts", "hosts", "--endpoints", "endpoints")
	path := filepath.Join(o.Dir, "hosts")
	must(t, os.WriteFile(path, []byte(theirHosts+"\n"), 0o644))
	done := make(chan struct{})
	var reads int
	var torn error
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			data, err := os.ReadFile(path)
			reads++
			text := string(data)
			rest, ok := strings.CutPrefix(text, theirHosts+"\n")
			if err != nil || !ok || rest != "" && (strings.Count(rest, "\n") != 5 || !strings.HasSuffix(rest, "# END holdfast cluster story\n")) {
				torn = fmt.Errorf("read %q, %v", text, err)
				return
			}
			time.Sleep(100 * time.Microsecond) // leaves the processor to others
		}
	})
	for i := range 12 {
		if i%2 == 0 { // makes the observer write the block again
			must(t, os.WriteFile(path+".new", []byte(theirHosts+"\n"), 0o644))
			must(t, os.Rename(path+".new", path))
		}
		o.Start()
		if i%4 == 0 {
			c.Until(patience, "the block is there", func() error {
				if data, _ := os.ReadFile(path); !strings.Contains(string(data), "# END") {
					return fmt.Errorf("the file is %q", data)
				}
				return nil
			})
		} else {
			time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) // a random moment for the kill
		}
		o.Kill()
	}
	close(done)
	reader.Wait()
	if torn != nil {
		t.Error(torn)
	}
	t.Logf("%d reads", reads)
	if left, _ := filepath.Glob(filepath.Join(o.Dir, ".*")); len(left) > 2 {
		t.Errorf("left behind: %v", left)
	}
}

// Three observers come and go while a cluster is founded, loses a disk and gets it back. The cluster is the same as
// without them.
func TestObserversDisturbNothing(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	var all []*integration.Observer
	for i := range 3 {
		all = append(all, c.Observe(21+i, "--endpoints", "endpoints"))
		all[i].Start()
	}
	c.Start()
	c.Serving()
	all[1].Kill()
	c.Healthy()
	w := c.Write()
	w.More(50)
	s, err := c.Nodes[0].Status()
	must(t, err)
	if len(s.Nodes) != 3 || len(s.Observers) == 0 {
		t.Errorf("status: got %d nodes, observers %v", len(s.Nodes), s.Observers)
	}
	all[1].Start()
	n := c.Nodes[1]
	replaced(t, c, n, func() {
		n.Kill()
		all[2].Signal(syscall.SIGTERM)
		if code := all[2].Exit(10 * time.Second); code != 0 {
			t.Errorf("exit code of an observer: got %d, want 0", code)
		}
		n.Wipe()
		n.Start()
		all[2].Start()
	})
	w.More(20)
	w.Verify()
	c.Healthy()
	c.Until(patience, "the observers know all members", func() error {
		for _, o := range all {
			data, err := os.ReadFile(filepath.Join(o.Dir, "endpoints"))
			if want := strings.Join(c.Endpoints(), "\n") + "\n"; err != nil || string(data) != want {
				return fmt.Errorf("at %s: got %q, %v, want %q", o.Address, data, err, want)
			}
		}
		return nil
	})
}

// --once writes and ends. If nothing is heard, it says why, and writes nothing.
func TestDiscoverOnce(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	o := c.Observe(21, "--endpoints", "endpoints", "--once")
	o.Start()
	if code := o.Exit(20 * time.Second); code != 0 {
		t.Errorf("exit code: got %d, want 0\n%s", code, o.Log())
	}
	if data, err := os.ReadFile(filepath.Join(o.Dir, "endpoints")); err != nil || string(data) != c.Nodes[0].ClientURL()+"\n" {
		t.Errorf("endpoints: got %q, %v", data, err)
	}
	wrong := c.Observe(22, "--endpoints", "endpoints", "--once", "--wait", "2s", "--cluster.name", "other")
	wrong.Start()
	if code := wrong.Exit(20 * time.Second); code != 1 {
		t.Errorf("of another cluster: got exit code %d, want 1", code)
	}
	if text := "it belongs to another cluster"; !strings.Contains(wrong.Log(), text) {
		t.Errorf("it says %q, want %q in it", wrong.Log(), text)
	}
	if _, err := os.Stat(filepath.Join(wrong.Dir, "endpoints")); err == nil {
		t.Error("it wrote endpoints")
	}
}
