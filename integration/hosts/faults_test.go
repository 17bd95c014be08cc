package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// silence is how long a test waits for something that must not come, and assurance for something that must. On a slow
// machine, tests that expect silence pass too easily but never fail.
const (
	silence   = 250 * time.Millisecond
	assurance = 5 * time.Second
)

const port = 7946

// mailbox is a UDP socket on a host that sends and receives datagrams.
type mailbox struct {
	*net.UDPConn
	host *Host
}

func mailboxes(t *testing.T, all []*Host) []*mailbox {
	t.Helper()
	var boxes []*mailbox
	for _, h := range all {
		m := &mailbox{host: h}
		must(t, h.Do(func() (err error) {
			m.UDPConn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
			return err
		}))
		t.Cleanup(func() { m.Close() })
		boxes = append(boxes, m)
	}
	return boxes
}

// send sends a unique datagram and returns it.
func (m *mailbox) send(t *testing.T, to *mailbox) string {
	t.Helper()
	text := fmt.Sprintf("%s to %s at %d", m.host.Name, to.host.Name, time.Now().UnixNano())
	if _, err := m.WriteToUDPAddrPort([]byte(text), netip.AddrPortFrom(to.host.Address(), port)); err != nil {
		t.Fatalf("send %s: %v", text, err)
	}
	return text
}

// receive adds what arrives to got, until got has all that is wanted, or the deadline.
func (m *mailbox) receive(t *testing.T, got map[string]bool, wanted []string, deadline time.Time) {
	t.Helper()
	must(t, m.SetReadDeadline(deadline))
	missing := func(text string) bool { return !got[text] }
	for buf := make([]byte, 1500); wanted == nil || slices.ContainsFunc(wanted, missing); {
		n, err := m.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		must(t, err)
		got[string(buf[:n])] = true
	}
}

// expect checks every way between two mailboxes: those that are cut are silent, all others are not.
func expect(t *testing.T, boxes []*mailbox, cut func(from, to string) bool) {
	t.Helper()
	sent, wanted := map[string]bool{}, map[*mailbox][]string{} // sent: whether it is to arrive
	for _, from := range boxes {
		for _, to := range boxes {
			if from == to {
				continue
			}
			text := from.send(t, to)
			sent[text] = !cut(from.host.Name, to.host.Name)
			if sent[text] {
				wanted[to] = append(wanted[to], text)
			}
		}
	}
	got, deadline := map[string]bool{}, time.Now().Add(assurance)
	for _, box := range boxes {
		box.receive(t, got, append([]string{}, wanted[box]...), deadline)
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(sent)), func(arrives bool) bool { return !arrives }) {
		deadline = time.Now().Add(silence)
		for _, box := range boxes {
			box.receive(t, got, nil, deadline)
		}
	}
	for text, want := range sent {
		if got[text] != want {
			t.Errorf("%s arrived: got %t, want %t", text, got[text], want)
		}
	}
}

func none(string, string) bool { return false }

// answering reports whether a TCP connection is made. The kernel retries, so that a late rule shows.
func answering(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), to netip.AddrPort, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	conn, err := dial(ctx, "tcp", to.String())
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// listen accepts TCP connections on the host and closes them.
func listen(t *testing.T, h *Host) netip.AddrPort {
	t.Helper()
	var l net.Listener
	must(t, h.Do(func() (err error) {
		l, err = net.Listen("tcp4", ":0")
		return err
	}))
	serve(t, l)
	return netip.AddrPortFrom(h.Address(), uint16(l.Addr().(*net.TCPAddr).Port))
}

func serve(t *testing.T, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// Every host and this process reach each other by UDP and TCP, whatever the machine's rules for forwarding are.
func TestEveryoneReachesEveryone(t *testing.T) {
	n, all := network(t, "n1", "n2", "n3")
	expect(t, mailboxes(t, all), none)
	l, err := net.Listen("tcp4", netip.AddrPortFrom(n.Gateway(), 0).String())
	must(t, err)
	serve(t, l)
	targets := []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}
	for _, h := range all {
		targets = append(targets, listen(t, h))
	}
	for _, to := range targets {
		if !answering(t, new(net.Dialer).DialContext, to, assurance) {
			t.Errorf("this process does not reach %s", to)
		}
		for _, h := range all {
			if !answering(t, h.Dial, to, assurance) {
				t.Errorf("%s does not reach %s", h.Name, to)
			}
		}
	}
}

// Hosts reach only their own network: of this process, only the gateway's address.
func TestNothingGoesFurther(t *testing.T) {
	_, all := network(t, "n1")
	other, _ := network(t)
	l, err := net.Listen("tcp4", netip.AddrPortFrom(other.Gateway(), 0).String())
	must(t, err)
	serve(t, l)
	to := netip.MustParseAddrPort(l.Addr().String())
	if !answering(t, new(net.Dialer).DialContext, to, assurance) {
		t.Fatalf("nobody answers at %s", to)
	}
	if answering(t, all[0].Dial, to, silence) {
		t.Errorf("the host reaches %s", to)
	}
}

func TestPartitions(t *testing.T) {
	n, all := network(t, "n1", "n2", "n3", "n4")
	boxes := mailboxes(t, all)
	group := map[string]int{"n1": 1, "n2": 1, "n3": 2} // n4 is in none
	for _, c := range []struct {
		name string
		do   func() error
		cut  func(from, to string) bool
	}{
		{"two groups", func() error { return n.Partition(all[:2], all[2:3]) },
			func(a, b string) bool { return group[a] != 0 && group[b] != 0 && group[a] != group[b] }},
		{"three groups", func() error { return n.Partition(all[:1], all[1:2], all[2:]) },
			func(a, b string) bool { return a < "n3" || b < "n3" }},
		{"one way", func() error { return n.Cut(all[0], all[1]) },
			func(a, b string) bool { return a == "n1" && b == "n2" }},
		{"isolated", func() error { return all[0].Isolate() },
			func(a, b string) bool { return a == "n1" || b == "n1" }},
		{"all lost", func() error { return all[2].Loss(100) },
			func(a, b string) bool { return a == "n3" || b == "n3" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, c.do())
			expect(t, boxes, c.cut)
			must(t, n.Heal())
			expect(t, boxes, none)
		})
	}
}

// A partition between hosts leaves their way to this process open. An isolation cuts it too, and ends alone.
func TestOutside(t *testing.T) {
	n, all := network(t, "n1", "n2")
	to := listen(t, all[0])
	reach := func(want bool, when string) {
		t.Helper()
		within := assurance
		if !want {
			within = silence
		}
		if got := answering(t, new(net.Dialer).DialContext, to, within); got != want {
			t.Errorf("%s: this process reaches n1: got %t, want %t", when, got, want)
		}
	}
	must(t, n.Partition(all[:1], all[1:]))
	reach(true, "partition")
	must(t, all[0].Isolate())
	reach(false, "isolation")
	must(t, all[0].Rejoin())
	reach(true, "after isolation")
	expect(t, mailboxes(t, all), func(_, _ string) bool { return true }) // Rejoin has not ended the partition
}

// A blocked port is blocked in both directions and for both ends, and nothing else is.
func TestBlock(t *testing.T) {
	_, all := network(t, "n1", "n2", "n3")
	boxes := mailboxes(t, all)
	to := listen(t, all[0])
	must(t, all[0].Block("udp", port))
	expect(t, boxes, func(a, b string) bool { return a == "n1" || b == "n1" })
	if !answering(t, all[1].Dial, to, assurance) {
		t.Errorf("tcp is blocked with udp")
	}
	must(t, all[0].Unblock("udp", port))
	expect(t, boxes, none)
	must(t, all[1].Block("tcp", to.Port()))
	if answering(t, all[1].Dial, to, silence) {
		t.Errorf("n2 reaches a port that is blocked for it")
	}
	if !answering(t, all[2].Dial, to, assurance) {
		t.Errorf("n3 does not reach a port that is blocked for n2")
	}
	if err := all[0].Block("sctp", 1); err == nil {
		t.Errorf("block sctp: got no error")
	}
}

// Half of the packets are lost; the exact number is chance.
func TestLoss(t *testing.T) {
	_, all := network(t, "n1", "n2")
	boxes := mailboxes(t, all)
	expect(t, boxes, none)
	must(t, all[0].Loss(50))
	const count = 200 // as many as a socket keeps when nobody reads
	to := netip.AddrPortFrom(all[1].Address(), port)
	sent := make(chan error, 1)
	go func() {
		for range count {
			if _, err := boxes[0].WriteToUDPAddrPort([]byte("x"), to); err != nil {
				sent <- err
				return
			}
		}
		err := all[0].Loss(0)
		if err == nil {
			_, err = boxes[0].WriteToUDPAddrPort([]byte("end"), to)
		}
		sent <- err
	}()
	must(t, boxes[1].SetReadDeadline(time.Now().Add(assurance)))
	got, buf := 0, make([]byte, 16)
	for {
		n, err := boxes[1].Read(buf)
		must(t, err)
		if string(buf[:n]) == "end" {
			break
		}
		got++
	}
	must(t, <-sent)
	if got < count*30/100 || got > count*70/100 {
		t.Errorf("arrived: got %d of %d, want about half", got, count)
	}
	for _, percent := range []int{-1, 101} {
		if err := all[0].Loss(percent); err == nil {
			t.Errorf("loss of %d percent: got no error", percent)
		}
	}
}

// The faults of a host end with it: a successor of the same name has none.
func TestFaultsEndWithTheHost(t *testing.T) {
	n, all := network(t, "n1", "n2")
	must(t, all[0].Isolate())
	must(t, all[0].Loss(100))
	must(t, all[0].Block("udp", port))
	must(t, n.Cut(all[0], all[1]))
	must(t, all[0].Destroy())
	if err := all[0].Isolate(); err == nil {
		t.Errorf("isolate a destroyed host: got no error")
	}
	if _, err := n.Add("n1"); err != nil {
		t.Fatal(err)
	}
	expect(t, mailboxes(t, n.Hosts()), none)
}

func TestRules(t *testing.T) {
	f := newFaults()
	f.isolated["n1"] = true
	f.cut[line{"n2", "n3"}] = true
	f.blocked[service{"n2", "udp", 7946}] = true
	f.loss["n3"] = 30
	const want = `add table bridge faults
delete table bridge faults
table bridge faults {
	chain forward {
		type filter hook forward priority filter; policy accept;
		oifname "outside" ether type ip ip daddr != 10.77.1.0/24 drop
		iifname "n1" drop
		oifname "n1" drop
		iifname "n2" oifname "n3" ether type != arp drop
		iifname "n2" udp sport 7946 drop
		iifname "n2" udp dport 7946 drop
		oifname "n2" udp sport 7946 drop
		oifname "n2" udp dport 7946 drop
		iifname "n3" ether type != arp numgen random mod 100 <= 29 drop
		oifname "n3" ether type != arp numgen random mod 100 <= 29 drop
	}
}
`
	if got := f.rules(netip.MustParsePrefix("10.77.1.0/24")); got != want {
		t.Errorf("rules: got\n%s\nwant\n%s", got, want)
	}
	for _, host := range []string{"n1", "n2", "n3"} {
		f.forget(host)
	}
	if got, want := f.rules(netip.Prefix{}), newFaults().rules(netip.Prefix{}); got != want {
		t.Errorf("rules of forgotten hosts: got\n%s\nwant\n%s", got, want)
	}
}
