package gossip

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
	"go.uber.org/zap"

	"holdfast/gossip/discover"
)

// Resolver answers the names of the slots from a table and forwards every other question, unchanged,
// to the nameserver that was to be asked. It opens no sockets but those, and starts no goroutine.
type Resolver struct {
	of    discover.Names
	lg    *zap.Logger
	names atomic.Pointer[names]
	net   *net.Resolver
	// tolerant: lines of the hosts file may have our names, for whose cluster it is is not known yet. adopted: another
	// program may run members.
	tolerant, adopted atomic.Bool

	hostsFile, nsswitch string // paths; tests have their own
}

// NewResolver returns a resolver for the names <slot>.<zone>, and for those of a pattern with {slot} in
// it, such as "etcd-{slot}.internal.example.com"; "" is no other names. None is known before Set. The zone is a domain
// name such as "main.holdfast.internal"; letter case and a final dot do not matter.
func NewResolver(zone, hosts string, lg *zap.Logger) *Resolver {
	r := &Resolver{
		of:        discover.Names{Zone: strings.Trim(strings.ToLower(zone), "."), Hosts: strings.ToLower(hosts)},
		lg:        lg,
		hostsFile: "/etc/hosts",
		nsswitch:  "/etc/nsswitch.conf",
	}
	r.names.Store(newNames(r.of, nil))
	r.net = &net.Resolver{PreferGo: true, Dial: r.dial}
	return r
}

// Set replaces the table, slot to addresses, at once and as a whole. A slot without addresses is a
// name that exists but has none; a slot not in the table does not exist.
func (r *Resolver) Set(table map[string][]netip.Addr) {
	next := newNames(r.of, table)
	last := r.names.Swap(next)
	if !maps.EqualFunc(last.addresses, next.addresses, slices.Equal) {
		r.lg.Info("slot addresses changed", zap.Any("slots", table))
	}
}

// Tolerate has [Resolver.Check] accept lines of the hosts file with our names until Adopt says whose cluster it is:
// while a cluster is taken over they are its old manager's, or those by which plain etcd finds its members.
// [Resolver.Stale] tells which of them are wrong.
func (r *Resolver) Tolerate() { r.tolerant.Store(true) }

// Adopt says whether holdfast has taken over the cluster, and not founded it. Then another program may run members,
// whose nodes tell no gossip where they are: a slot without addresses is asked of the nameserver (R11), as /etc/hosts
// is before us in any case. Call it once that is known: of a cluster that holdfast made no lines are tolerated from
// then on.
func (r *Resolver) Adopt(adopted bool) {
	r.adopted.Store(adopted)
	if !adopted {
		r.tolerant.Store(false)
	}
}

// Resolver returns the net.Resolver that asks us first; the caller makes it net.DefaultResolver, which
// is where etcd's dialers look. It is the same one each time.
func (r *Resolver) Resolver() *net.Resolver { return r.net }

// dial returns a connection to the nameserver at address on which we answer what is for us. Dialling ends with ctx.
func (r *Resolver) dial(ctx context.Context, network, address string) (net.Conn, error) {
	e := &exchange{tcp: strings.HasPrefix(network, "tcp"), local: r.local, dial: func() (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	if e.tcp {
		return e, nil
	}
	return packets{e}, nil
}

// local answers a query if it is for us, with at most limit bytes: who asks over UDP asks again over TCP for the rest.
// What we cannot read is not for us.
func (r *Resolver) local(query []byte, limit int) ([]byte, bool) {
	var q dns.Msg
	if q.Unpack(query) != nil || q.Response || q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 {
		return nil, false
	}
	known := r.names.Load()
	if r.adopted.Load() && known.elsewhere(q.Question[0]) {
		return nil, false
	}
	// Without these two Go takes an empty answer for a lame referral, and asks the next server.
	reply := new(dns.Msg).SetReply(&q)
	reply.Authoritative, reply.RecursionAvailable = true, true
	if !known.answer(reply) {
		return nil, false
	}
	reply.Truncate(limit)
	msg, err := reply.Pack()
	if err != nil {
		reply.Answer, reply.Rcode = nil, dns.RcodeServerFailure
		msg, err = reply.Pack()
	}
	return msg, err == nil
}

// Check proves that a lookup of our names reaches us. It fails if a line of /etc/hosts has one of them,
// because that line would win forever over the gossip, or if nsswitch.conf keeps lookups from DNS. The
// error names the file and the cure. Lines of /etc/hosts are accepted after Tolerate or Adopt. Both files may change at
// any time: check at start, and now and then.
func (r *Resolver) Check(ctx context.Context) error {
	if !r.tolerant.Load() && !r.adopted.Load() {
		lines, err := r.ourLines()
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			return fmt.Errorf("%s line %d fixes the address of %s, which holdfast must answer itself: "+
				"remove the name from that line", r.hostsFile, lines[0].Number, lines[0].Name)
		}
	}
	name := canary + "." + r.of.Zone
	got, err := r.net.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		if line := r.sources(); line != "" && !slices.Contains(strings.Fields(line), "dns") {
			return fmt.Errorf("%s has no dns in its line %q, so names are never asked for: add dns to that line", r.nsswitch,
				line)
		}
		return fmt.Errorf("look up %s, a name only holdfast knows: %w", name, err)
	}
	if len(got) != 1 || got[0].Unmap() != canaryAddress {
		return fmt.Errorf("look up %s, a name only holdfast knows: got %v, want %v: something else answers our names", name,
			got, canaryAddress)
	}
	return nil
}
