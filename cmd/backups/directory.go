package backups

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

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/durable"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Directory describes a data directory to make from a backup, and the member that it is for.
type Directory struct {
	Path           string
	MemberName     string // "": cluster.member-name with the slot
	Slot           string // "": the first of cluster.slots
	InitialCluster string // name=URL,…; "": this member alone
	Token          string // "": CLUSTER@BACKUP
	Bump           int64  // negative: restore.revision-bump
	Foreign        bool   // another cluster's backup is allowed
}

// DefaultPeerURL is the default peer URL of etcd.
const DefaultPeerURL = "http://localhost:2380"

// Make makes a data directory from a backup, or latest, on any machine, for any etcd. It verifies the backup. The
// directory must not exist, or be empty; it is either complete or absent afterwards. Make prints what it did, and how
// to start etcd there.
func (b *Backups) Make(ctx context.Context, out io.Writer, name string, d Directory) error {
	name, err := b.resolve(ctx, name)
	if err != nil {
		return err
	}
	return b.Progressing(func(opt snapshot.Options) error {
		opt.Rate = 0 // no member serves here that needs the bandwidth
		return d.make(ctx, out, b.Config, b.Store, name, opt)
	})
}

// Would verifies a backup, or latest, and returns a text about the directory that Make would make.
func (b *Backups) Would(ctx context.Context, name string, d Directory) (would string, err error) {
	if name, err = b.resolve(ctx, name); err != nil {
		return "", err
	}
	spec, err := d.spec(b.Config, name)
	if err != nil {
		return "", err
	}
	if err := d.admit(ctx, b.Config, b.Store, name); err != nil {
		return "", err
	}
	if err := vacant(d.Path); err != nil {
		return "", fmt.Errorf("restore %s to %s: %w", name, d.Path, err)
	}
	err = b.Progressing(func(opt snapshot.Options) error {
		v, err := snapshot.Verify(ctx, b.Store, name, opt)
		if err == nil && !v.Full {
			err = fmt.Errorf("backup %s is encrypted, and there is no key here to decrypt it: set snapshot.identity-file", name)
		}
		return err
	})
	return fmt.Sprintf("verified %s; would restore it to %s, as member %s of a cluster of %d with the token %s",
		name, d.Path, spec.Slot, len(spec.Peers), spec.Token), err
}

// make makes the directory from a backup in a store.
func (d Directory) make(ctx context.Context, out io.Writer, cfg config.Config, store snapshot.Store, name string,
	opt snapshot.Options) error {
	spec, err := d.spec(cfg, name)
	if err != nil {
		return err
	}
	bump, err := d.Raise(cfg)
	if err != nil {
		return err
	}
	if err := d.admit(ctx, cfg, store, name); err != nil {
		return err
	}
	dir, err := filepath.Abs(d.Path)
	if err != nil {
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

// Raise returns by how much to raise the revision.
func (d Directory) Raise(cfg config.Config) (int64, error) {
	if d.Bump < 0 {
		return cfg.Restore.RevisionBump, nil
	}
	if d.Bump > config.MaxRevisionBump {
		return 0, fmt.Errorf("--revision-bump: must be 0–%d, got %d", int64(config.MaxRevisionBump), d.Bump)
	}
	return d.Bump, nil
}

// spec returns the member that the directory is for. Its slot is the member's name.
func (d Directory) spec(cfg config.Config, backup string) (plan.Spec, error) {
	slot := d.Slot
	switch {
	case slot == "" && cfg.Cluster.TagSlots:
		return plan.Spec{}, errors.New("--slot: must be given, for cluster.slots is not set: the volumes' tags have the " +
			"slots")
	case slot == "":
		slot = cfg.Cluster.Slots[0]
	}
	member := cmp.Or(d.MemberName, strings.Replace(cfg.Cluster.MemberName, config.SlotMark, slot, 1))
	spec := plan.Spec{Slot: member, Token: cmp.Or(d.Token, cfg.Cluster.Name+"@"+backup), Peers: map[string]string{}}
	for _, pair := range strings.Split(cmp.Or(d.InitialCluster, member+"="+DefaultPeerURL), ",") {
		peer, at, ok := strings.Cut(pair, "=")
		if !ok || peer == "" || spec.Peers[peer] != "" {
			return spec, fmt.Errorf("--initial-cluster: must be name=URL,... with each member once, got %q", d.InitialCluster)
		}
		spec.Peers[peer] = at
	}
	if spec.Peers[member] == "" {
		return spec, fmt.Errorf("--initial-cluster: must name the member %s itself, got %q; say with --member-name which "+
			"of them it is", member, d.InitialCluster)
	}
	if _, _, err := embedded.FounderIDs(spec.Token, spec.Peers); err != nil {
		return spec, fmt.Errorf("--initial-cluster: %w", err)
	}
	return spec, nil
}

// admit returns an error unless the backup may be restored.
func (d Directory) admit(ctx context.Context, cfg config.Config, store snapshot.Store, name string) error {
	id, err := generations.Identity(ctx, store, cfg.Cluster.Name)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	found, err := node.Archive{Store: store, Cluster: cfg.Cluster.Name, Force: true}.Find(ctx, name, id.Lineage)
	if err == nil && found.Foreign && !d.Foreign { // Find's own error warns of replacing a cluster's data
		err = fmt.Errorf("backup %s is that of another cluster, %s: set cluster.name if it is the one you mean, or add "+
			"--force-foreign", name, found.Cluster)
	}
	return err
}

// vacant returns an error if makeWhole could not make the directory.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("it must not exist, or be an empty directory: %w", err)
	case len(entries) > 0:
		return errors.New("it must not exist, or be an empty directory: it is not empty")
	}
	if _, err := os.Lstat(partialOf(dir)); err == nil {
		return inTheWay(dir)
	}
	return nil
}

// partialOf returns the path at which a directory is made before it is renamed.
func partialOf(dir string) string { return dir + ".partial" }

func inTheWay(dir string) error {
	return fmt.Errorf("%s is in the way: another restore is making it, or was killed: if none runs, remove it",
		partialOf(dir))
}

// makeWhole has build make a directory beside dir, and renames it to dir. If build fails, nothing is left.
func makeWhole(dir string, build func(partial string) error) error {
	// Remove an empty directory first: if it is a mount point, that fails, and then nothing has been built in vain. Rmdir
	// never removes a file.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it must not exist, or be an empty directory that can be replaced: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	partial := partialOf(dir)
	if err := os.Mkdir(partial, 0o700); errors.Is(err, fs.ErrExist) {
		return inTheWay(dir)
	} else if err != nil {
		return err
	}
	if err := build(partial); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, dir); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// explainRestored prints what was made, and how to start etcd on it.
func explainRestored(out io.Writer, dir string, meta snapshot.Meta, spec plan.Spec, bump int64) error {
	members, cluster, err := embedded.FounderIDs(spec.Token, spec.Peers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "verified %s (%s ago, revision %d, %d records) and restored it to %s\n",
		meta.Name, health.Age(time.Now(), meta.Created), meta.Content.Revision, meta.Content.Keys, dir)
	if bump > 0 {
		fmt.Fprintf(out, "the revision is %d, and all before counts as compacted: watchers list again\n",
			meta.Content.Revision+bump)
	}
	fmt.Fprintf(out, "member %s (%x) of a new cluster (%x) of %d, token %s; leases, users and roles are as they were\n\n",
		spec.Slot, members[spec.Slot], cluster, len(spec.Peers), spec.Token)
	fmt.Fprintf(out, "To start etcd on it, as the owner of the directory:\n\n  etcd --name %s --data-dir %s "+
		"--listen-peer-urls %s\n", spec.Slot, dir, listenURL(spec.Peers[spec.Slot]))
	if len(spec.Peers) > 1 {
		_, err = fmt.Fprintf(out, "\nThe other members are made of the same backup, with the same --initial-cluster, "+
			"--revision-bump and --token %s,\n"+
			"each with its own --member-name. Start them together.\n", spec.Token)
	}
	return err
}

// listenURL returns the URL at which a member with this peer URL listens. etcd listens at addresses, not at names.
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
