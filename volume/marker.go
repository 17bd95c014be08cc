package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"holdfast/durable"
)

// MarkerName is the file in node.data-dir that remembers the volume this node held last. It is outside the root, so
// that it is still readable when the root is not mounted. A node may have a second one, which survives a change of
// node.data-dir.
const MarkerName = "last-volume.json"

// marker says which disk with data this node held last, and where. A blank disk leaves no marker, since it has no data.
type marker struct {
	Root   string `json:"root"`
	Slot   string `json:"slot"`
	Disk   string `json:"disk"`
	Record string `json:"record"` // token of the generation that the disk has accepted
}

type markerFile struct {
	Version int `json:"version"`
	marker
}

func (m marker) String() string { return encode(markerFile{Version: 1, marker: m}) }

// readMarker returns the marker at path, or nil if there is none. A marker that cannot be read is an error: it may be
// the only evidence of a disk.
func readMarker(path string) (*marker, error) {
	data, err := ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cure(err)
	}
	var f markerFile
	if err = Decode(data, &f); err == nil && (f.Root == "" || f.Slot == "" || f.Disk == "" || f.Record == "") {
		err = errors.New("root, slot, disk or record is missing")
	}
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; make sure that the volume's file system is mounted, then remove this file",
			path, err)
	}
	return &f.marker, nil
}

// gone is a marker whose disk is not at the root.
type gone struct {
	marker
	dir   string // where it should be
	moved bool   // it was held at another root
	blank bool   // dir holds nothing but an identity, if that
}

func (g gone) String() string {
	text := fmt.Sprintf("disk %s of %s, which this node held last, is not in %s", g.Disk, g.Record, g.dir)
	if g.moved {
		text += fmt.Sprintf(" (it was held below %s: is that still the right root?)", g.Root)
	}
	return text
}

// gone returns the marker if the disk that this node held last is not at this root, and nil if the disk is there or
// there is no marker. A tag that names the disk is on the root itself, so it shows that this is still the same root. It
// does not matter at which root the disk was held: otherwise, configuring a new root on every node would found the
// cluster again. Each marker counts, because one may remember what another does not.
func (l *Local) gone(root string) (*gone, error) {
	for _, path := range l.markers {
		if g, err := l.goneBy(path, root); g != nil || err != nil {
			return g, err
		}
	}
	return nil, nil
}

// goneBy is gone for one marker.
func (l *Local) goneBy(path, root string) (*gone, error) {
	m, err := readMarker(path)
	if err != nil || m == nil {
		return nil, err
	}
	at := l.place(root, m.Slot)
	tag, _, err := readTag(at.tag)
	if err != nil || tag != nil && tag.Disk == m.Disk {
		return nil, err
	}
	data, err := ReadSmall(filepath.Join(at.dir, IdentityName))
	if err := missing(err); err != nil {
		return nil, cure(err)
	}
	if id, err := parseIdentity(data); err == nil && id.Disk == m.Disk {
		return nil, nil
	}
	blank, err := bare(at.dir)
	return &gone{marker: *m, dir: at.dir, moved: m.Root != root, blank: blank}, err
}

// bare reports whether a volume is empty or holds nothing but its identity.
func bare(dir string) (bool, error) {
	n, err := dataIn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return n == 0, cure(err)
}

// forget removes the markers that name this slot.
func (l *Local) forget(slot string) error {
	for _, path := range l.markers {
		m, err := readMarker(path)
		if err != nil {
			return err
		}
		if m == nil || m.Slot != slot {
			continue
		}
		if err := os.Remove(path); err != nil {
			return cure(missing(err))
		}
		l.step("forgot the volume")
		if err := durable.SyncDir(filepath.Dir(path)); err != nil {
			return cure(err)
		}
	}
	return nil
}

// SetRecord implements Claim with the markers. It returns when they are durable. If writing one fails, the next
// call tries again. A marker says which disk was here, so it stays if the disk's cluster was given up.
func (c *localClaim) SetRecord(token string) {
	// op is held while the volume is set aside or released.
	if token == "" || len(c.local.markers) == 0 || !c.op.TryLock() {
		return
	}
	defer c.op.Unlock()
	m := marker{Root: c.root, Slot: c.Want.Slot, Disk: c.Volume().Disk, Record: token}
	c.mu.Lock()
	written := c.borne == m
	c.mu.Unlock()
	if written || c.Released() || c.Lost() != nil || c.Mismatch() != "" {
		return
	}
	var failed []string
	for _, path := range c.local.markers { // each is tried: one may outlive the other
		err := MakeDirs(filepath.Dir(path))
		if err == nil {
			err = ReplaceFile(path, m.String(), c.local.step)
		}
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) == 0 {
		c.mu.Lock()
		c.borne, c.gone = m, nil
		c.mu.Unlock()
	}
	why := strings.Join(failed, "; ")
	if c.local.unborne.Swap(why) != why && why != "" {
		c.local.log.Warn("could not remember the volume outside of its root", zap.String("error", why))
	}
}

// Problems reports a stalled disk, and reasons why an unmounted root could be taken for a blank disk. It does no I/O.
func (l *Local) Problems() []string {
	var all []string
	inside := func(top string) bool {
		return !slices.ContainsFunc(l.markers, func(path string) bool { return !within(path, top) })
	}
	if top, err := l.top(); err == nil && len(l.markers) > 0 && inside(top) {
		key := "volume.local.root"
		if l.cfg.Directory != "" {
			key = "volume.local.directory"
		}
		all = append(all, fmt.Sprintf("node.data-dir (%s) lies in %s: while that is not mounted, nothing here remembers the "+
			"volume; set node.data-dir to a directory outside of %s", filepath.Dir(l.markers[0]), key, top))
	}
	if why, _ := l.unborne.Load().(string); why != "" {
		all = append(all,
			"the volume is not remembered outside of its root, which would look blank if it were not mounted: "+why)
	}
	if c := l.watched.Load(); c != nil {
		if text := c.stall(); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// Missing implements MissingReporter. While the volume holds nothing else that is worth keeping, it is held but not
// touched, and has a Mismatch too.
func (c *localClaim) Missing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		return ""
	}
	return c.gone.String()
}
