package hosts

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestCheck(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := Check(); err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("check without root: got %v", err)
		}
		t.Skip("hosts in network namespaces need root")
	}
	must(t, Check())
	t.Setenv("PATH", t.TempDir())
	err := Check()
	if err == nil {
		t.Fatal("check without programs: got no error")
	}
	for _, p := range programs {
		if !strings.Contains(err.Error(), "program "+p.name+": install "+p.from) {
			t.Errorf("check without programs: got %v, want a line about %s", err, p.name)
		}
	}
}

func TestBadNames(t *testing.T) {
	n, _ := network(t, "n1")
	for _, name := range []string{"", "n1", "N1", "a b", "a\"b", "outside", "bridge", "lo", "-a", "a-", strings.Repeat("a", 16)} {
		if _, err := n.Add(name); err == nil {
			t.Errorf("add %q: got no error", name)
		}
	}
	if got := len(n.Hosts()); got != 1 {
		t.Errorf("hosts: got %d, want 1", got)
	}
}

// Close leaves nothing behind and can be repeated.
func TestCloseLeavesNothing(t *testing.T) {
	before := remains()
	n, all := network(t, "n1", "n2")
	cmd := all[0].Command(t.Context(), "sleep", "1000")
	must(t, cmd.Start())
	must(t, all[1].Isolate())
	must(t, n.Close())
	if err := cmd.Wait(); err == nil {
		t.Errorf("the command of a host has survived it")
	}
	must(t, n.Close())
	if got, want := strings.Join(remains(), "\n"), strings.Join(before, "\n"); got != want {
		t.Errorf("left behind: got\n%s\nwant\n%s", got, want)
	}
	if _, err := n.Add("n3"); err == nil {
		t.Errorf("add to a closed network: got no error")
	}
}

// A subnet that is in use is refused. The smallest and the largest network fit.
func TestSubnet(t *testing.T) {
	n, _ := network(t)
	octets := n.Subnet().Addr().As4()
	octets[3] = 128
	half := netip.PrefixFrom(netip.AddrFrom4(octets), 25) // half of it, so with another name
	for _, subnet := range []string{n.Subnet().String(), half.String(), "10.77.0.0/30", "10.0.0.0/8", "fd00::/64"} {
		if other, err := New(Options{Subnet: netip.MustParsePrefix(subnet)}); err == nil {
			t.Errorf("subnet %s: got no error", subnet)
			must(t, other.Close())
		}
	}
	subnet := netip.MustParsePrefix("10.78.77.8/29")
	small, err := New(Options{Subnet: subnet})
	must(t, err)
	defer small.Close()
	for i, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		h, err := small.Add(name)
		must(t, err)
		if got, want := h.Address().As4()[3], byte(10+i); got != want {
			t.Errorf("address of %s: got .%d, want .%d", name, got, want)
		}
	}
	if _, err := small.Add("n6"); err == nil {
		t.Errorf("a sixth host in a /29: got no error")
	}
}

// Networks that are made at once get different subnets, and closing one does not close another.
func TestNetworksAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces need root")
	}
	made := make([]*Network, 4)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			n, err := New(Options{})
			if err != nil {
				t.Errorf("network %d: %v", i, err)
				return
			}
			t.Cleanup(func() { n.Close() })
			made[i] = n
			for _, name := range []string{"n1", "n2"} {
				if _, err := n.Add(name); err != nil {
					t.Errorf("network %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	seen := map[netip.Prefix]bool{}
	for _, n := range made {
		if seen[n.Subnet()] {
			t.Errorf("subnet %s is used twice", n.Subnet())
		}
		seen[n.Subnet()] = true
	}
	must(t, made[0].Close())
	for _, n := range made[1:] {
		expect(t, mailboxes(t, n.Hosts()), none)
	}
}

// ownerTest tells the test binary that it is to be killed.
const ownerTest = "HOSTS_TEST_OWNER"

// TestOwner is not a test: it makes what TestKilledOwner looks for, and waits to be killed.
func TestOwner(t *testing.T) {
	if os.Getenv(ownerTest) == "" {
		t.Skip("only TestKilledOwner runs this")
	}
	n, all := network(t, "n1", "n2")
	run(t, all[0], "setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
	cmd := all[1].Command(t.Context(), "sleep", "1000")
	must(t, cmd.Start())
	fmt.Println("owned", n.link, all[0].Pid(), all[1].Pid(), cmd.Process.Pid)
	select {}
}

// When the process that made them is killed, anchors and commands end by themselves. A daemon that one of them left,
// and the link, are gone at the latest when the next network is made.
func TestKilledOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces need root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOwner$", "-test.v")
	cmd.Env = append(os.Environ(), ownerTest+"=1")
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var owned []string
	for lines := bufio.NewScanner(stdout); owned == nil && lines.Scan(); {
		if _, after, found := strings.Cut(lines.Text(), "owned "); found {
			owned = strings.Fields(after)
		}
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if owned == nil {
		t.Fatal("the owner has ended early")
	}
	for _, pid := range owned[1:] {
		until(t, "process "+pid+" has ended", func() bool { return !lives(pid) })
	}
	strays := func() (all []process) {
		all, err := processes(func(pid int) bool {
			o, ok := parseMark(markOf(pid))
			return ok && o.pid == cmd.Process.Pid
		})
		must(t, err)
		closeAll(all)
		return all
	}
	if got := len(strays()); got != 1 {
		t.Fatalf("strays before: got %d, want the daemon", got)
	}
	network(t, "n1")
	if got := len(strays()); got != 0 {
		t.Errorf("strays: got %d, want none", got)
	}
	link, err := netlink.LinkByName(owned[0])
	if err == nil && strings.Contains(link.Attrs().Alias, "/"+strconv.Itoa(cmd.Process.Pid)+"/") {
		t.Errorf("link %s is still there", owned[0])
	}
}

// Nobody sweeps the hosts of a living owner, nor those of an owner in another PID namespace, which cannot be
// seen from here.
func TestSweepSparesTheLiving(t *testing.T) {
	_, all := network(t, "n1")
	pid := all[0].Pid()
	network(t, "n1")
	if all[0].Pid() != pid || !lives(strconv.Itoa(pid)) {
		t.Errorf("a new network has ended the anchor of another")
	}
	me, err := self()
	must(t, err)
	for _, c := range []struct {
		name string
		o    owner
		dead bool
	}{
		{"this process", me, false},
		{"an earlier process of this id", owner{me.namespace, me.pid, "1"}, true},
		{"no process", owner{me.namespace, 1 << 22, me.start}, true},
		{"a process elsewhere", owner{"pid:[1]", 1 << 22, me.start}, false},
	} {
		got, ok := parseMark(c.o.mark("n1"))
		if !ok || got != c.o {
			t.Errorf("%s: mark %s: got %v, want %v", c.name, c.o.mark("n1"), got, c.o)
		}
		if got := got.dead(me.namespace); got != c.dead {
			t.Errorf("%s is dead: got %t, want %t", c.name, got, c.dead)
		}
	}
}

// lives reports whether the process runs; a zombie does not.
func lives(pid string) bool {
	stat, err := status("/proc/" + pid)
	return err == nil && stat.state != "Z"
}

// until polls for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(assurance); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", assurance, what)
		}
	}
}

// A host that moves is reached at its new address and takes its routes along. The host that gets its old address is
// reached there.
func TestSetAddress(t *testing.T) {
	n, all := network(t, "n1", "n2", "n3")
	boxes := mailboxes(t, all)
	expect(t, boxes, none) // everybody now knows everybody's hardware address
	old := all[0].Address()
	fresh, err := n.Unused()
	must(t, err)
	must(t, all[0].SetAddress(fresh))
	if got := all[0].Address(); got != fresh {
		t.Errorf("address: got %s, want %s", got, fresh)
	}
	expect(t, boxes, none)
	if got, want := sourceOf(t, all[0]), fresh; got != want {
		t.Errorf("address of the default route: got %s, want %s", got, want)
	}
	must(t, all[1].SetAddress(old))
	// The new owner of an old address has sent nothing yet: others must resolve the address again by themselves.
	got, text := map[string]bool{}, boxes[2].send(t, boxes[1])
	boxes[1].receive(t, got, []string{text}, time.Now().Add(time.Second))
	if !got[text] {
		t.Errorf("n3 does not reach n2 at the address that n1 had")
	}
	expect(t, boxes, none)
	for _, bad := range []netip.Addr{old, n.Gateway(), n.Subnet().Addr(), netip.MustParseAddr("192.0.2.1"), {}} {
		if err := all[2].SetAddress(bad); err == nil {
			t.Errorf("move to %s: got no error", bad)
		}
	}
}

// sourceOf returns the address from which a program on the host would reach the rest of the world.
func sourceOf(t *testing.T, h *Host) netip.Addr {
	t.Helper()
	conn, err := h.Dial(t.Context(), "udp", "192.0.2.1:9") // sends nothing
	must(t, err)
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
}
