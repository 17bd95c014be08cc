package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Content is the content of a device.
type Content struct {
	// Blank means provably never used. All proofs agree: its first and last MiB are zero on the device itself, blkid
	// finds no signature, and nobody has it mounted or open exclusively.
	Blank bool
	// Type, UUID and Label describe an ext4 or xfs filesystem; Type is "" if there is none.
	Type, UUID, Label string
	// Other describes content that is neither blank nor such a filesystem.
	Other string
	// Busy means that a process has it mounted or open exclusively.
	Busy bool

	signed bool // blkid found a signature
}

// Probe returns the content of a device. It writes nothing.
func Probe(ctx context.Context, device string) (Content, error) {
	f, err := exclusive(device, os.O_RDONLY|unix.O_DIRECT)
	busy := errors.Is(err, ErrBusy)
	if busy {
		f, err = open(device, os.O_RDONLY|unix.O_DIRECT)
	}
	if err != nil {
		return Content{}, fmt.Errorf("probe %s: %w", device, err)
	}
	var c Content
	err = bounded(ctx, "probe "+device, func() error {
		defer f.Close()
		if !busy {
			if err := dropCache(f); err != nil {
				return err
			}
		}
		found, err := probe(ctx, f)
		if err != nil {
			return fmt.Errorf("probe %s: %w", device, err)
		}
		if found.Busy = busy; busy && found.Blank {
			found.Blank, found.Other = false, "nothing that is known, but it is in use"
		}
		c = found
		return nil
	})
	if err != nil {
		return Content{}, err // a probe that hangs may still write to c
	}
	return c, nil
}

// probe examines an open device, or file.
func probe(ctx context.Context, f *os.File) (Content, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Content{}, err
	}
	if size == 0 {
		return Content{Other: "nothing: its size is 0"}, nil
	}
	buffer, free, err := aligned(edge)
	if err != nil {
		return Content{}, err
	}
	defer free()
	at, err := firstData(f, size, buffer)
	if err != nil {
		return Content{}, err
	}
	c, err := signature(ctx, f.Name())
	if err != nil || c.signed {
		return c, err
	}
	if at >= 0 {
		c.Other = fmt.Sprintf("data of an unknown kind (from byte %d)", at)
	}
	c.Blank = at < 0
	return c, nil
}

// The exit codes of blkid(8) in low-level probing mode.
const (
	blkidNothing    = 2
	blkidAmbivalent = 8
)

// signature asks blkid, without its cache, for everything that it knows: filesystems, swap, encryption, RAID
// and LVM members, and partition tables.
func signature(ctx context.Context, device string) (Content, error) {
	out, err := run(ctx, "blkid", "-p", "-o", "export", device)
	switch code := exitCode(err); {
	case err == nil:
		return parseSignature(out), nil
	case code == blkidNothing && len(bytes.TrimSpace(out)) == 0:
		return Content{}, nil
	case code == blkidAmbivalent:
		return Content{Other: "the signatures of several things (blkid: ambivalent)", signed: true}, nil
	}
	return Content{}, err
}

func parseSignature(out []byte) Content {
	tags := make(map[string]string)
	for line := range strings.SplitSeq(string(out), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			tags[key] = value
		}
	}
	c := Content{signed: true}
	what, table := tags["TYPE"], tags["PTTYPE"]
	switch {
	case (what == "ext4" || what == "xfs") && tags["USAGE"] == "filesystem" && table == "" && tags["UUID"] != "":
		c.Type, c.UUID, c.Label = what, strings.ToLower(tags["UUID"]), tags["LABEL"]
	case table != "" && what != "":
		c.Other = fmt.Sprintf("%s and a partition table (%s)", what, table)
	case table != "":
		c.Other = fmt.Sprintf("a partition table (%s)", table)
	case what != "":
		c.Other = fmt.Sprintf("%s (%s)", what, tags["USAGE"])
	default:
		c.Other = "something that blkid does not name"
	}
	return c
}
