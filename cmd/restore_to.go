package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// restoreAs says whose a data directory is to be that is made of a backup.
type restoreAs struct {
	memberName     string // "": cluster.member-name with the slot
	slot           string // "": the first of cluster.slots
	initialCluster string // name=URL,…; "": this member alone
	token          string // "": of the backup
	bump           int64  // negative: restore.revision-bump
	foreign        bool   // restore another cluster's backup, too
}

// defaultPeerURL is etcd's own.
const defaultPeerURL = "http://localhost:2380"

// addFlags adds the flags of `restore --to`, but for that of foreign, which other restores have, too.
func (a *restoreAs) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&a.memberName, "member-name", "", "with --to: the member's `name` in etcd (default cluster.member-name with the slot)")
	fs.StringVar(&a.slot, "slot", "", "with --to: the `slot` in the member's name (default the first of cluster.slots)")
	fs.StringVar(&a.initialCluster, "initial-cluster", "", "with --to: `name=URL,...` of all members of the new cluster (default this one alone at "+defaultPeerURL+")")
	fs.StringVar(&a.token, "token", "", "with --to: the cluster's `token`, the same for all its members and never used before (default made of the backup's name)")
	fs.Int64Var(&a.bump, "revision-bump", -1, "with --to: raise the revision by this `number` (default restore.revision-bump; 0 keeps it, for a copy to look into)")
}

// restoreTo makes a data directory of a backup, on any machine, for holdfast's etcd or any other: it verifies the backup
// on the way, and dir is whole or absent. dir must not exist, or be empty. It prints to out what it did and how to start
// etcd there.
func restoreTo(ctx context.Context, out io.Writer, cfg config.Config, store snapshot.Store, name, dir string, as restoreAs, opt snapshot.Options) error {
	spec, err := as.spec(cfg, name)
	if err != nil {
		return err
	}
	bump, err := as.raise(cfg)
	if err != nil {
		return err
	}
	opt.Rate = 0 // nothing is served that would have to be spared
	if err := as.admit(ctx, cfg, store, name); err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	var meta snapshot.Meta
	err = makeWhole(dir, func(partial string) error {
		path := embedded.DatabasePath(partial)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if meta, err = snapshot.Fetch(ctx, store, name, path, opt); err != nil {
			return err
		}
		return embedded.Disk{}.Rebuild(ctx, partial, spec, bump)
	})
	if err != nil {
		return fmt.Errorf("restore %s to %s, which was not made: %w", name, dir, err)
	}
	return explainRestored(out, dir, meta, spec, bump)
}

// raise returns how much the revision is to be raised by.
func (a restoreAs) raise(cfg config.Config) (int64, error) {
	if a.bump < 0 {
		return cfg.Restore.RevisionBump, nil
	}
	if a.bump > config.MaxRevisionBump {
		return 0, fmt.Errorf("--revision-bump: must be 0–%d, got %d", int64(config.MaxRevisionBump), a.bump)
	}
	return a.bump, nil
}

// spec returns the member that the directory is made for, its name as slot.
func (a restoreAs) spec(cfg config.Config, backup string) (plan.Spec, error) {
	slot := cmp.Or(a.slot, cfg.Cluster.Slots[0])
	member := cmp.Or(a.memberName, strings.Replace(cfg.Cluster.MemberName, config.SlotMark, slot, 1))
	spec := plan.Spec{Slot: member, Token: cmp.Or(a.token, cfg.Cluster.Name+"@"+backup), Peers: map[string]string{}}
	for _, pair := range strings.Split(cmp.Or(a.initialCluster, member+"="+defaultPeerURL), ",") {
		peer, at, ok := strings.Cut(pair, "=")
		if !ok || peer == "" || spec.Peers[peer] != "" {
			return spec, fmt.Errorf("--initial-cluster: must be name=URL,... with each member once, got %q", a.initialCluster)
		}
		spec.Peers[peer] = at
	}
	if spec.Peers[member] == "" {
		return spec, fmt.Errorf("--initial-cluster: must name the member %s itself, got %q; say with --member-name which of them it is", member, a.initialCluster)
	}
	if _, _, err := embedded.FounderIDs(spec.Token, spec.Peers); err != nil {
		return spec, fmt.Errorf("--initial-cluster: %w", err)
	}
	return spec, nil
}

// admit returns an error unless the backup is one that may be restored.
func (a restoreAs) admit(ctx context.Context, cfg config.Config, store snapshot.Store, name string) error {
	id, err := generations.Identity(ctx, store, cfg.Cluster.Name)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	found, err := archive{store: store, cluster: cfg.Cluster.Name, force: true}.find(ctx, name, id.Lineage)
	if err == nil && found.Foreign && !a.foreign { // no cluster's data is at stake here, so it is said in other words
		err = fmt.Errorf("backup %s is that of another cluster, %s: set cluster.name if it is the one you mean, or add --force-foreign", name, found.Cluster)
	}
	return err
}

// vacant returns an error unless makeWhole could make a directory.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("it must not exist, or be an empty directory: %w", err)
	case len(entries) > 0:
		return errors.New("it must not exist, or be an empty directory: it is not empty")
	}
	if _, err := os.Lstat(dir + ".partial"); err == nil {
		return fmt.Errorf("%s is in the way: another restore is making it, or was killed: if none runs, remove it", dir+".partial")
	}
	return nil
}

// makeWhole lets build make a directory beside dir and then gives it dir's name. When build fails, nothing is left.
func makeWhole(dir string, build func(partial string) error) error {
	// An empty directory goes first, to find out now if it cannot: it may be a mount point. Never a file.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it must not exist, or be an empty directory that can be replaced: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	partial := dir + ".partial"
	err := os.Mkdir(partial, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is in the way: another restore is making it, or was killed: if none runs, remove it", partial)
	}
	if err != nil {
		return err
	}
	if err := build(partial); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, dir); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// explainRestored tells what was made, and what to do with it.
func explainRestored(out io.Writer, dir string, meta snapshot.Meta, spec plan.Spec, bump int64) error {
	members, cluster, err := embedded.FounderIDs(spec.Token, spec.Peers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "verified %s (%s ago, revision %d, %d records) and restored it to %s\n",
		meta.Name, health.Age(time.Now(), meta.Created), meta.Content.Revision, meta.Content.Keys, dir)
	if bump > 0 {
		fmt.Fprintf(out, "the revision is %d, and all before counts as compacted: whoever watches lists anew\n", meta.Content.Revision+bump)
	}
	fmt.Fprintf(out, "member %s (%x) of a new cluster (%x) of %d, token %s; leases, users and roles are as they were\n\n",
		spec.Slot, members[spec.Slot], cluster, len(spec.Peers), spec.Token)
	fmt.Fprintf(out, "To start etcd on it, as the owner of the directory:\n\n  etcd --name %s --data-dir %s --listen-peer-urls %s\n", spec.Slot, dir, listenURL(spec.Peers[spec.Slot]))
	if len(spec.Peers) > 1 {
		_, err = fmt.Fprintf(out, "\nThe other members are made of the same backup, with the same --initial-cluster, --revision-bump and --token %s,\n"+
			"each with its own --member-name. Start them together.\n", spec.Token)
	}
	return err
}

// listenURL is where a member listens that is reached at peerURL: etcd listens at an address, never at a name.
func listenURL(peerURL string) string {
	u, err := url.Parse(peerURL)
	if err != nil || u.Hostname() == "localhost" {
		return peerURL
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return peerURL
	}
	return u.Scheme + "://0.0.0.0:" + u.Port()
}

// copyTo makes a data directory of a backup.
func (r *restoration) copyTo(ctx context.Context, name, dir string, as restoreAs) error {
	name, err := r.b.resolve(r.c, name)
	if err != nil {
		return err
	}
	return r.b.progressing(r.c, func(opt snapshot.Options) error {
		return restoreTo(ctx, r.c.OutOrStdout(), r.b.cfg, r.b.main, name, dir, as, opt)
	})
}

// wouldCopyTo verifies the backup and says where it would be restored to.
func (r *restoration) wouldCopyTo(ctx context.Context, name, dir string, as restoreAs) error {
	name, err := r.b.resolve(r.c, name)
	if err != nil {
		return err
	}
	spec, err := as.spec(r.b.cfg, name)
	if err != nil {
		return err
	}
	if err := as.admit(ctx, r.b.cfg, r.b.main, name); err != nil {
		return err
	}
	if err := vacant(dir); err != nil {
		return fmt.Errorf("restore %s to %s: %w", name, dir, err)
	}
	err = r.b.progressing(r.c, func(opt snapshot.Options) error {
		v, err := snapshot.Verify(ctx, r.b.main, name, opt)
		if err == nil && !v.Full {
			err = fmt.Errorf("backup %s is encrypted, and there is no key here to decrypt it: set snapshot.identity-file", name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return nothingChanged(r.c, fmt.Sprintf("verified %s; would restore it to %s, as member %s of a cluster of %d with the token %s", name, dir, spec.Slot, len(spec.Peers), spec.Token))
}
