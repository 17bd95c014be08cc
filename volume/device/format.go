package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// Filesystem is a filesystem to make.
type Filesystem struct {
	Type  string // ext4 or xfs
	UUID  string // of 36 characters
	Label string // 12 characters at most
}

// Format makes a filesystem on a device that a Probe has proved blank, or on which a Format with the same UUID was
// interrupted. It checks again that nobody uses the device, and that the device is blank, has no signature, or has the
// signature of this filesystem.
//
// An ext4 filesystem is written completely at once. Otherwise the kernel would write the inode tables later, while etcd
// waits for its fsyncs, and after a crash could take the old content of the journal for valid. One inode per 256 KiB
// instead of 16 KiB makes this fast enough: etcd has few files. Nothing is discarded: the space between the edges of
// the device is left alone until it is overwritten, and a blank EBS volume gains nothing by a discard.
func Format(ctx context.Context, device string, fs Filesystem) error {
	var options []string
	switch fs.Type {
	case "ext4":
		options = []string{"-q", "-U", fs.UUID, "-L", fs.Label, "-i", "262144", "-E",
			"nodiscard,lazy_itable_init=0,lazy_journal_init=0"}
	case "xfs":
		options = []string{"-q", "-K", "-m", "uuid=" + fs.UUID, "-L", fs.Label}
	default:
		return fmt.Errorf("format %s: filesystem must be ext4 or xfs, got %q", device, fs.Type)
	}
	err := need("blkid", "mkfs."+fs.Type)
	if err == nil {
		err = RetryBusy(ctx, func() error {
			if err := clear(ctx, device, fs.UUID); err != nil {
				return err
			}
			return bounded(ctx, "format "+device, func() error { return mkfs(ctx, device, fs.Type, options) })
		})
	}
	if err == nil {
		err = verify(ctx, device, fs)
	}
	if err != nil {
		return fmt.Errorf("format %s: %w", device, err)
	}
	return nil
}

// clear checks that a device may be formatted, and makes it look blank: mount-utils would mount what an interrupted
// mkfs has left. The device is released just before mkfs, which also opens it exclusively.
func clear(ctx context.Context, device, uuid string) error {
	f, err := exclusive(device, os.O_RDWR|unix.O_DIRECT)
	if err != nil {
		return err
	}
	return bounded(ctx, "clear "+device, func() error {
		return errors.Join(clearOpen(ctx, f, uuid), f.Close())
	})
}

func clearOpen(ctx context.Context, f *os.File, uuid string) error {
	if err := dropCache(f); err != nil {
		return err
	}
	c, err := probe(ctx, f)
	switch {
	case err != nil:
		return err
	case c.Blank:
		return nil
	case c.signed && (c.Type == "" || !strings.EqualFold(c.UUID, uuid)):
		return fmt.Errorf("it is not blank any more: it holds %s", c.describe())
	}
	return wipe(f)
}

// describe describes the content to people.
func (c Content) describe() string {
	switch {
	case c.Blank:
		return "nothing (it is blank)"
	case c.Type != "":
		return fmt.Sprintf("an %s filesystem (UUID %s, label %q)", c.Type, c.UUID, c.Label)
	}
	return c.Other
}

// mkfs formats a device with mount-utils, which also checks with blkid that the device is blank. That is never the only
// check.
func mkfs(ctx context.Context, device, fstype string, options []string) error {
	formatter := mount.NewSafeFormatAndMount(noMount{}, newPrograms(ctx))
	err := formatter.FormatAndMountSensitiveWithFormatOptions(device, "", fstype, nil, nil, options)
	if err == nil {
		return nil
	}
	text := oneLine([]byte(err.Error()))
	if strings.Contains(text, "in use by the system") { // another program has opened it since the last check
		return fmt.Errorf("%w (%s)", ErrBusy, text)
	}
	return errors.New(text)
}

// noMount keeps mount-utils from mounting what it has formatted.
type noMount struct{ mount.Interface }

func (noMount) MountSensitive(source, target, fstype string, options, sensitive []string) error {
	return nil
}

// verify checks that the new filesystem is there: mount-utils skips mkfs if it finds any signature.
func verify(ctx context.Context, device string, fs Filesystem) error {
	c, err := Probe(ctx, device)
	if err == nil && (c.Type != fs.Type || !strings.EqualFold(c.UUID, fs.UUID) || c.Label != fs.Label) {
		err = fmt.Errorf("there should be a new %s filesystem (UUID %s), but there is %s", fs.Type, fs.UUID, c.describe())
	}
	return err
}
