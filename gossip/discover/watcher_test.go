package discover

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// stillFeed always has the same view.
type stillFeed struct{ view View }

func (f stillFeed) View() View             { return f.view }
func (stillFeed) Changed() <-chan struct{} { return nil }
func (stillFeed) Problems() []string       { return nil }

// Where one member was never heard of, the others are told once that one was waited for, although nothing changes then.
func TestServerWithoutOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := slices.DeleteFunc(members(2), func(e Entry) bool { return e.Slot == "v6" })
		for i := range running {
			running[i].Address = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		}
		feed := stillFeed{View{Known: true, Voters: []string{"a", "b", "c"}, Running: running}}
		server := &Server{}
		w := NewWatcher("k8s", Names{Zone: zone}, Outputs{Server: server}, feed, prometheus.NewRegistry(), zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(2 * gather)
		got := show(server.zone.Load().Answer(query("a."+zone+".", dns.TypeA, 0), false))
		if want := "NOERROR 10.0.0.1 aa"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
