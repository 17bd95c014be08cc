package ebs

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"syscall"
	"time"

	"holdfast/volume"
)

// simHost is an instance as one of its processes sees it.
type simHost struct{ x *simProc }

func (h simHost) host() Host { return Host{Devices: h.Devices, Disks: h, Files: h, Memory: h} }

// enter is called first in every call; it returns with the world locked.
func (h simHost) enter(danger bool) (*simWorld, *simBox) {
	h.x.gate(danger)
	h.x.w.mu.Lock()
	return h.x.w, h.x.box
}

// leave ends a call that has changed something.
func (h simHost) leave() { h.x.gate(true) }

// work takes some time, during which the process may end.
func (h simHost) work(ctx context.Context, max time.Duration) error {
	h.x.w.mu.Lock()
	d := h.x.w.between(time.Microsecond, max)
	h.x.w.mu.Unlock()
	err := pause(ctx, d)
	h.x.gate(err == nil)
	return err
}

func (h simHost) Lock() (func(), error) {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	if b.lock != nil {
		return nil, fmt.Errorf("%w: process %s has the lock", volume.ErrNoneFree, b.lock.name())
	}
	b.lock = h.x
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if b.lock == h.x {
			b.lock = nil
		}
	}, nil
}

func (h simHost) Devices() (map[string]string, error) {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	found := map[string]string{}
	for _, v := range w.vols {
		if v.att != nil && v.att.box == b && v.att.path != "" {
			found[v.id] = v.att.path
		}
	}
	return found, nil
}

// at returns the volume behind a device path.
func (w *simWorld) at(b *simBox, path string) *simVolume {
	for _, v := range w.vols {
		if v.att != nil && v.att.box == b && v.att.path == path && path != "" {
			return v
		}
	}
	return nil
}

func (h simHost) Probe(ctx context.Context, device string) (Content, error) {
	if err := h.work(ctx, 200*time.Millisecond); err != nil {
		return Content{}, err
	}
	w, b := h.enter(false)
	defer w.mu.Unlock()
	v := w.at(b, device)
	if v == nil {
		return Content{}, syscall.EIO
	}
	d := v.disk
	switch {
	case d.kind == "":
		return Content{Blank: !b.mounted(v)}, nil
	case d.kind == "half" && d.uuid == "":
		return Content{Other: "something"}, nil
	}
	return Content{Type: ext4, UUID: d.uuid, Label: d.label}, nil
}

func (h simHost) Format(ctx context.Context, device, uuid string) error {
	w, b := h.enter(true)
	v := w.at(b, device)
	if v == nil {
		w.mu.Unlock()
		return syscall.EIO
	}
	w.formatting(h.x, v)
	a := v.att
	v.disk.kind, v.disk.uuid, v.disk.label, v.disk.maker = "half", "", "", a
	w.mu.Unlock()
	if err := h.work(ctx, 2*time.Second); err != nil {
		return err
	}
	w, _ = h.enter(false)
	if v.att != a || a.path == "" {
		w.mu.Unlock()
		return syscall.EIO
	}
	v.disk.uuid = uuid // blkid finds the UUID before the rest is written
	w.mu.Unlock()
	if err := h.work(ctx, time.Second); err != nil {
		return err
	}
	w, _ = h.enter(false)
	if v.att != a || a.path == "" {
		w.mu.Unlock()
		return syscall.EIO
	}
	w.note("%s formatted %s", h.x.name(), v.id)
	v.disk.kind, v.disk.label = "fs", label
	v.disk.formats++
	w.tally.event("format")
	w.mu.Unlock()
	h.leave()
	return nil
}

func (h simHost) Mount(ctx context.Context, device, dir string, readonly bool) error {
	if err := h.work(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	w, b := h.enter(true)
	v := w.at(b, device)
	m := b.mounts[dir]
	switch {
	case v == nil || m != nil && m.v != v && m.io() == nil:
		w.mu.Unlock()
		return syscall.EBUSY
	case v.disk.kind != "fs":
		w.mu.Unlock()
		return syscall.EINVAL
	case w.faulty && w.chance(w.life.ioerr):
		w.mu.Unlock()
		return syscall.EIO
	case v.disk.foreign && v.disk.label != label && !readonly:
		w.fail("I5: %s mounts %s for writing, which holds foreign data", h.x.name(), v.id)
	}
	if m != nil && m.v == v && m.io() == nil {
		m.ro = m.ro && readonly
	} else { // even over the remains of a device that is gone
		b.mounts[dir] = &simMount{v: v, att: v.att, dir: dir, ro: readonly}
	}
	w.note("%s mounted %s at %s (ro %v)", h.x.name(), v.id, dir, readonly)
	w.mounted(b)
	w.mu.Unlock()
	h.leave()
	return nil
}

func (h simHost) Grow(ctx context.Context, device, dir string) error {
	if err := h.work(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	w, b := h.enter(true)
	defer w.mu.Unlock()
	switch m, err := w.mount(b, dir); {
	case err != nil:
		return err
	case m.ro || m.att.path != device:
		w.fail("%s grows %s, which is not mounted for writing at %s", h.x.name(), device, dir)
	}
	return syscall.EPERM // as without the capability
}

func (h simHost) Unmount(ctx context.Context, dir string) error {
	if err := h.work(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	w, b := h.enter(true)
	if m := b.mounts[dir]; m != nil {
		for _, n := range w.nodes {
			if n.proc != nil && n.proc.open == m && !n.proc.dead {
				w.mu.Unlock()
				return syscall.EBUSY
			}
		}
		w.note("%s unmounted %s", h.x.name(), m.v.id)
		m.dead = true
		delete(b.mounts, dir)
		w.idle(b)
	}
	w.mu.Unlock()
	h.leave()
	return nil
}

func (h simHost) Mounted(device string) ([]string, error) {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	var dirs []string
	for _, dir := range sortedKeys(b.mounts) {
		if m := b.mounts[dir]; m.att.path == device && m.v.att == m.att {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func (h simHost) Check(vol, device, dir string) error {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	m := b.mounts[dir]
	switch {
	case m == nil:
		return fmt.Errorf("nothing is mounted at %s", dir)
	case m.dead || m.v.id != vol || m.v.att != m.att || m.att.path != device:
		return fmt.Errorf("device %s of %s is gone", device, vol)
	}
	return nil
}

// Stalled says that no device answers in a life in which EC2 lies: then its lies may be believed.
func (h simHost) Stalled() (since time.Time, ok bool) {
	return h.x.w.began, h.x.w.life.lies
}

func (h simHost) Fence(dir string) error {
	w, b := h.enter(true)
	defer w.mu.Unlock()
	if m := b.mounts[dir]; m != nil {
		w.note("%s fenced %s", h.x.name(), m.v.id)
		w.tally.event("fence")
		m.dead = true
		delete(b.mounts, dir)
		w.idle(b)
	}
	return nil
}

// mount returns what is mounted at dir, if I/O to it succeeds.
func (w *simWorld) mount(b *simBox, dir string) (*simMount, error) {
	m := b.mounts[dir]
	if m == nil {
		return nil, syscall.ENOENT
	}
	return m, m.io()
}

func (m *simMount) io() error {
	if m.dead || m.v.att != m.att || m.att.path == "" {
		return syscall.EIO
	}
	return nil
}

func (h simHost) Running(string) (string, error) { return "", nil }

func (h simHost) Inspect(dir string) (volume.Found, error) {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	m, err := w.mount(b, dir)
	switch {
	case err != nil:
		return volume.Found{}, err
	case w.faulty && w.chance(w.life.ioerr):
		return volume.Found{}, syscall.EIO
	}
	d := m.v.disk
	f := volume.Found{Entries: d.records}
	if d.foreign || d.etcd {
		f.Entries++
	}
	if d.etcd {
		f.Foreign = []string{"data/x1"}
	}
	// On a read-only mount, what is only in the journal of the filesystem is not visible.
	if d.identity != nil && (!m.ro || !d.etcd || w.chance(2)) {
		f.Foreign = nil
		id := *d.identity
		f.Identity = &id
	}
	return f, nil
}

func (h simHost) Identify(dir string, id volume.Identity) error {
	w, b := h.enter(true)
	m, err := w.mount(b, dir)
	if err == nil && m.ro {
		err = syscall.EROFS
	}
	if err != nil {
		w.mu.Unlock()
		return err
	}
	w.identifying(h.x, m.v, id)
	m.v.disk.identity = &id
	w.note("%s identified %s with epoch %d", h.x.name(), m.v.id, id.Epoch)
	w.mu.Unlock()
	h.leave()
	return nil
}

func (h simHost) SetAside(dir string) error {
	w, b := h.enter(true)
	defer w.mu.Unlock()
	w.fail("I5: %s sets aside what is on %s, and nobody asked for it", h.x.name(), filepath.Join(b.id, dir))
	return nil
}

func (h simHost) Journal() (Journal, error) {
	w, b := h.enter(false)
	defer w.mu.Unlock()
	return b.journal, nil
}

func (h simHost) Remember(j Journal) error {
	w, b := h.enter(true)
	if b.full {
		w.mu.Unlock()
		return syscall.ENOSPC
	}
	j.Attaching, j.Detaching = maps.Clone(j.Attaching), maps.Clone(j.Detaching)
	b.journal = j
	w.note("%s remembers held %v, attaching %v, detaching %v, formatting %v", h.x.name(), j.Held, keys(j.Attaching), keys(j.Detaching), j.Formatting)
	w.mu.Unlock()
	h.leave()
	return nil
}

func keys(m map[string]time.Time) []string { return sortedKeys(m) }
