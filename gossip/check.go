package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Check proves that a lookup of our names reaches us. It fails if a line of /etc/hosts has one of them,
// because that line would win forever over the gossip, or if nsswitch.conf keeps lookups from DNS. The
// error names the file and the cure. Lines of /etc/hosts are accepted after Tolerate or Adopt. Both files may change at
// any time: check at start, and now and then.
func (r *Resolver) Check(ctx context.Context) error {
	if !r.tolerant.Load() && !r.adopted.Load() {
		if err := r.checkHosts(); err != nil {
			return err
		}
	}
	name := canary + "." + r.zone
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
