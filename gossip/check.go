package gossip

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Check proves that a lookup of our names reaches us. It fails if a line of /etc/hosts has one of them,
// because that line would win forever over the gossip, or if nsswitch.conf keeps lookups from DNS. The
// error names the file and the cure. Both files may change at any time: check at start, and now and then.
func (r *Resolver) Check(ctx context.Context) error {
	if err := r.checkHosts(); err != nil {
		return err
	}
	name := canary + "." + r.zone
	got, err := r.net.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		if cause := r.checkNsswitch(); cause != nil {
			return cause
		}
		return fmt.Errorf("look up %s, a name only holdfast knows: %w", name, err)
	}
	if len(got) != 1 || got[0].Unmap() != canaryAddress {
		return fmt.Errorf("look up %s, a name only holdfast knows: got %v, want %v: something else answers our names", name,
			got, canaryAddress)
	}
	return nil
}

// checkHosts reads the hosts file itself: the resolver caches it, and asks it only for one name at a time.
func (r *Resolver) checkHosts() error {
	text, err := os.ReadFile(r.hostsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for our names in %s: %w", r.hostsFile, err)
	}
	known, number := r.names.Load(), 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		for i, field := range fields {
			name := strings.TrimSuffix(strings.ToLower(field), ".")
			if _, ours := known.addresses[name]; i > 0 && (ours || strings.HasSuffix("."+name, "."+r.zone)) {
				return fmt.Errorf("%s line %d fixes the address of %s, which holdfast must answer itself: remove the name from that line", r.hostsFile, number, name)
			}
		}
	}
	return nil
}

// checkNsswitch explains a failed lookup: Go looks only at "files" and "dns" (nsswitch.conf(5)).
func (r *Resolver) checkNsswitch() error {
	text, err := os.ReadFile(r.nsswitch)
	if err != nil {
		return nil // without the file DNS is asked, so it is not the cause
	}
	for _, line := range lines(string(text)) {
		if sources, ok := strings.CutPrefix(line, "hosts:"); ok && !slices.Contains(strings.Fields(sources), "dns") {
			return fmt.Errorf("%s has no dns in its line %q, so names are never asked for: add dns to that line", r.nsswitch,
				line)
		}
	}
	return nil
}
