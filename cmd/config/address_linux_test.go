package config

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// onMachine runs f as on a machine with these addresses, all on one interface, and these routes, each
// "GATEWAY", or "GATEWAY SOURCE", to everywhere.
func onMachine(t *testing.T, addresses, routes []string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, and with it the namespace, ends with this goroutine
		err := isolate(addresses, routes)
		if err == nil {
			f()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatalf("make a machine of this test's own: %v", err)
	}
}

// isolate puts the thread into a network namespace of its own.
func isolate(addresses, routes []string) error {
	ns, err := netns.New()
	if err != nil {
		return err
	}
	defer ns.Close()
	// A bridge, because it is up without anything behind it.
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}
	err = netlink.LinkAdd(link)
	for _, text := range addresses {
		addr, e := netlink.ParseAddr(text)
		if e == nil {
			addr.Flags = noDAD
			e = netlink.AddrAdd(link, addr)
		}
		err = errors.Join(err, e)
	}
	err = errors.Join(err, netlink.LinkSetUp(link))
	for _, text := range routes {
		gateway, source, _ := strings.Cut(text, " ")
		err = errors.Join(err, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Gw: net.ParseIP(gateway), Src: net.ParseIP(source)}))
	}
	return err
}

// noDAD is IFA_F_NODAD: an IPv6 address may be used at once.
const noDAD = 0x02

func TestOwnAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		addresses, routes []string
		want              string // empty: an error
	}{
		"the default route's":     {[]string{"10.0.0.5/24", "172.17.0.1/16", "fd00::5/64"}, []string{"10.0.0.1"}, "10.0.0.5"},
		"not the first one":       {[]string{"172.17.0.1/16", "10.0.0.5/24"}, []string{"10.0.0.1"}, "10.0.0.5"},
		"its preferred source":    {[]string{"10.0.0.5/24", "10.0.0.6/24"}, []string{"10.0.0.1 10.0.0.6"}, "10.0.0.6"},
		"IPv4 before IPv6":        {[]string{"10.0.0.5/24", "fd00::5/64"}, []string{"fd00::1", "10.0.0.1"}, "10.0.0.5"},
		"IPv6 alone":              {[]string{"10.0.0.5/24", "fd00::5/64"}, []string{"fd00::1"}, "fd00::5"},
		"no route, one address":   {[]string{"10.0.0.5/24", "169.254.1.1/16"}, nil, "10.0.0.5"},
		"no route, two addresses": {[]string{"10.0.0.5/24", "fd00::5/64"}, nil, ""},
		"no network":              {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got netip.Addr
			var err error
			onMachine(t, tt.addresses, tt.routes, func() { got, err = OwnAddress() })
			if tt.want != "" && (err != nil || got.String() != tt.want) {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
			if tt.want == "" && err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

// auto is resolved before anything is derived from it, and its origin says so.
func TestAddressAuto(t *testing.T) {
	file := writeFile(t, "cluster: {slots: [a]}\nnode:\n  address: auto\n  name: n1\n")
	flags := parseFlags(t)
	var l *Loaded
	var err error
	onMachine(t, []string{"10.0.0.5/24"}, []string{"10.0.0.1"}, func() { l, err = Load(file, flags, nil) })
	must(t, err)
	for _, want := range []struct{ Key, text, origin string }{
		{"node.address", "10.0.0.5", "file " + file + ":3 (auto: 10.0.0.5)"},
		{"gossip.listen", "10.0.0.5:7946", "derived from node.address"},
		{"etcd.listen-client-urls", "https://10.0.0.5:2379,https://127.0.0.1:2379", "derived from node.address"},
		{"etcd.listen-peer-urls", "https://10.0.0.5:2380", "derived from node.address"},
	} {
		if got := textOf(t, l, want.Key); got != want.text || l.Origin[want.Key] != want.origin {
			t.Errorf("%s: got %q (%s), want %q (%s)", want.Key, got, l.Origin[want.Key], want.text, want.origin)
		}
	}
	onMachine(t, nil, nil, func() { _, err = Load(file, flags, nil) })
	want := "node.address: auto found no default route: set an IP address (" + filepath.Base(file) + ":3)"
	if got := problems(err, file); len(got) != 1 || got[0] != want {
		t.Errorf("without a network: got %q, want %q", got, want)
	}
	// Anyone who writes an address needs no network for it.
	onMachine(t, nil, nil, func() { _, err = Load(file, parseFlags(t, "--node.address=10.0.0.9"), nil) })
	if err != nil {
		t.Errorf("an address: %v", err)
	}
}
