package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"holdfast/durable"
	"holdfast/embedded/pki"
	"holdfast/volume"
)

// Lacking returns a warning for each thing on this machine that a node would wait for, or do without. Each begins with
// its key. A node starts all the same, and shows it in its status.
func Lacking(l *Loaded) []string {
	var all []string
	c := l.Config
	add := func(key string, err error) {
		if err != nil {
			all = append(all, l.hide(key+": "+err.Error()))
		}
	}
	if path := c.Gossip.SeedsFile; path != "" {
		_, err := os.ReadFile(path)
		add("gossip.seeds-file", err)
	}
	if c.TLS.Mode == pki.ModeCA {
		_, err := pki.FileSource(c.TLS).Authorities(context.Background())
		for _, e := range Errors(err) {
			add("tls.mode", e)
		}
	}
	for key, path := range map[string]string{"gossip.observer-file": c.Gossip.ObserverFile,
		"tls.operator-file": c.TLS.OperatorFile} {
		if path != "" {
			_, err := pki.ReadPaper(path)
			add(key, err)
		}
	}
	// A directory may be a dead mount.
	key, path := c.VolumeDirectory()
	if c.Volume.Provider == volume.ProviderLocal {
		add("volume.local", ifAnswers(path, c.Volume.Local.Missing))
	}
	for key, path := range map[string]string{key: path, "snapshot.spool": c.Snapshot.Spool,
		"snapshot.scratch": c.Snapshot.Scratch} {
		if path != "" {
			add(key, ifAnswers(path, func() error { return makable(path) }))
		}
	}
	if store := c.Snapshot.Store; !c.Snapshot.InBucket() {
		add("snapshot.store", ifAnswers(store, func() error {
			if slices.Contains(c.OwnBackupDirectories(), store) { // the node makes it
				return makable(store)
			}
			return cmp.Or(noDirectory(store), makable(store))
		}))
	}
	for _, w := range l.elsewhere(true) {
		all = append(all, w.Error())
	}
	slices.Sort(all)
	return all
}

// ifAnswers returns the error of a look at a path, or one that says that the path does not answer.
func ifAnswers(path string, look func() error) error {
	err, ok := durable.Soon(answers, look)
	if !ok {
		err = fmt.Errorf("%s has not answered for %s", path, answers)
	}
	return err
}

// noDirectory returns an error unless there is a directory at path. Nobody creates it, because it may be a mount point.
func noDirectory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no directory %s: create it or mount it; until then no backup is made and no cluster "+
			"founded", path)
	}
	return err
}

// elsewhere finds the keys with a listen address that this machine does not have: those of etcd, or all others. A node
// keeps trying to start etcd, but ends if one of the others fails. An address that is derived from node.address is
// reported for node.address.
func (l *Loaded) elsewhere(etcd bool) (all []Wrong) {
	derived := map[string]bool{}
	for _, e := range Endpoints(l.Config) {
		if e.Host == "" || strings.HasPrefix(e.Key, "etcd.") != etcd || has(e.Host) {
			continue
		}
		if l.Origin[e.Key] == derivedFrom+"node.address" {
			derived[e.Key] = true
			continue
		}
		w := l.wrong(e.Key, "must be at an address of this machine, got %q", e.Host)
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	if len(derived) > 0 {
		all = append(all, l.wrong("node.address", "must be an address of this machine, or set %s to one, got %q",
			strings.Join(slices.Sorted(maps.Keys(derived)), " and "), l.Config.Node.Address))
	}
	return all
}

// has reports whether this machine has an address, by trying to listen there.
func has(host string) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err == nil {
		ln.Close()
	}
	return !errors.Is(err, syscall.EADDRNOTAVAIL)
}
