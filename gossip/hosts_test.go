package gossip

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"go.uber.org/zap"
	"golang.org/x/net/dns/dnsmessage"
)

// managed is what etcd-manager writes into /etc/hosts.
const managed = `127.0.0.1 localhost
# Begin host entries managed by etcd-manager[etcd] - do not edit
10.0.0.1	etcd-a.internal.example.com
10.0.0.9	etcd-b.internal.example.com other.example.com
10.0.0.3	etcd-c.internal.example.com
fd00::2	etcd-b.internal.example.com
# End host entries managed by etcd-manager[etcd]
10.0.0.8	ETCD-A.internal.example.com. # by hand
elsewhere	etcd-a.internal.example.com
`

func adoptedResolver(t *testing.T, hosts string) *Resolver {
	t.Helper()
	r := NewResolver("main.internal.example.com", "etcd-{slot}.internal.example.com", zap.NewNop())
	r.hostsFile, r.nsswitch = filepath.Join(t.TempDir(), "hosts"), filepath.Join(t.TempDir(), "nsswitch.conf")
	must(t, os.WriteFile(r.hostsFile, []byte(hosts), 0o600))
	r.Set(map[string][]netip.Addr{"a": addrs("10.0.0.1"), "b": addrs("10.0.0.2"), "d": nil})
	return r
}

// Only a cluster that is taken over may have lines with our names: of holdfast's own it fixes an address for good.
func TestLinesOfAnOldManager(t *testing.T) {
	for name, allow := range map[string]func(*Resolver){
		"nobody allows it": nil,
		"to be taken over": (*Resolver).Tolerate,
		"taken over":       func(r *Resolver) { r.Adopt(true) },
		"founded here":     func(r *Resolver) { r.Adopt(false) },
		"founded here, under the flags of a takeover": func(r *Resolver) { r.Tolerate(); r.Adopt(false) },
	} {
		r := adoptedResolver(t, managed)
		if allow != nil {
			allow(r)
		}
		err := r.Check(t.Context())
		if want := strings.Contains(name, "taken over"); (err == nil) != want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestStaleLines(t *testing.T) {
	r := adoptedResolver(t, managed)
	got, err := r.Stale()
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v, want two lines", got, err)
	}
	for i, want := range []StaleLine{
		{r.hostsFile, 4, "etcd-b.internal.example.com", netip.MustParseAddr("10.0.0.9"), addrs("10.0.0.2"), "etcd"},
		{r.hostsFile, 8, "etcd-a.internal.example.com", netip.MustParseAddr("10.0.0.8"), addrs("10.0.0.1"), ""},
	} {
		if l := got[i]; l.File != want.File || l.Number != want.Number || l.Name != want.Name || l.Address != want.Address ||
			!slices.Equal(l.Known, want.Known) || l.Block != want.Block {
			t.Errorf("line %d: got %+v, want %+v", i, l, want)
		}
	}
	for sources, want := range map[string]int{"files dns": 2, "dns files": 0, "myhostname dns [!UNAVAIL=return] files": 0, "files": 2} {
		must(t, os.WriteFile(r.nsswitch, []byte("passwd: dns files\nhosts: "+sources+"\n"), 0o600))
		if got, err := r.Stale(); err != nil || len(got) != want {
			t.Errorf("hosts: %s: got %v, %v, want %d", sources, got, err, want)
		}
	}
	r.hostsFile = filepath.Join(t.TempDir(), "none")
	if got, err := r.Stale(); err != nil || len(got) > 0 {
		t.Errorf("no file: got %v, %v", got, err)
	}
}

// A slot of an adopted cluster of which no address is known is asked of the nameserver; one of a cluster that holdfast
// founded never is.
func TestAdoptedSlotsAreAskedElsewhere(t *testing.T) {
	r := adoptedResolver(t, "")
	for _, adopted := range []bool{false, true, false} {
		r.Adopt(adopted)
		for name, elsewhere := range map[string]bool{
			"etcd-a.internal.example.com":             false, // known
			"etcd-c.internal.example.com":             true,
			"ETCD-C.internal.example.com":             true,
			"etcd-d.internal.example.com":             true, // a slot that has no address
			"c.main.internal.example.com":             true,
			"etcd-c.internal.example.com.example.com": false, // what a search domain makes of it
			"x.etcd-c.main.internal.example.com":      false,
			canary + ".main.internal.example.com":     false,
		} {
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
				if _, ours := r.local(pack(t, name+".", kind), dns.MaxMsgSize); ours == (adopted && elsewhere) {
					t.Errorf("adopted %t: %s %s is ours: %t", adopted, kind, name, ours)
				}
			}
		}
	}
}
