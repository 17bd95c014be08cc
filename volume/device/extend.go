package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The superblock of ext4: where it is, and the fields that give the size of the filesystem. See "Super Block" in
// the kernel's documentation of ext4.
const (
	superblockAt   = 1024
	superblockSize = 1024
	ext4Magic      = 0xEF53
	ext4Is64bit    = 0x80
)

// worthGrowing is the least difference, in bytes, for which a filesystem is grown: mkfs leaves some space unused.
const worthGrowing = 1 << 20

// Extend makes an ext4 filesystem that is not mounted as large as its device, and returns its size in bytes before and
// after. Growing it before it is mounted needs no more capabilities than a mount. Growing a mounted one needs
// CAP_SYS_RESOURCE, which containers seldom have. Extend does nothing with any other content; Grow is for xfs.
func Extend(ctx context.Context, device string) (before, after int64, err error) {
	before, err = ext4Size(device)
	if err != nil || before == 0 {
		return 0, 0, err
	}
	size, err := sizeOf(device)
	if err != nil || size-before < worthGrowing {
		return before, before, err
	}
	if err := errors.Join(need("e2fsck", "resize2fs"), notInUse(device)); err != nil {
		return before, before, fmt.Errorf("extend %s: %w", device, err)
	}
	// resize2fs demands a full check of a filesystem that is not mounted.
	if _, err := run(ctx, "e2fsck", "-f", "-p", device); err != nil && exitCode(err) != 1 {
		return before, before, fmt.Errorf("extend %s: %w", device, err)
	}
	if _, err := run(ctx, "resize2fs", device); err != nil {
		return before, before, fmt.Errorf("extend %s: %w", device, err)
	}
	after, err = ext4Size(device)
	return before, after, err
}

// ext4Size returns the size in bytes of the ext4 filesystem on a device, from its superblock, or 0 if there is none.
func ext4Size(device string) (size int64, err error) {
	f, err := open(device, 0)
	if err != nil {
		return 0, fmt.Errorf("read the superblock: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := dropCache(f); err != nil {
		return 0, err
	}
	b := make([]byte, superblockSize)
	if _, err := f.ReadAt(b, superblockAt); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		return 0, fmt.Errorf("read the superblock of %s: %w", device, err)
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	if binary.LittleEndian.Uint16(b[56:]) != ext4Magic {
		return 0, nil
	}
	blocks := word(4)
	if word(96)&ext4Is64bit != 0 {
		blocks |= word(336) << 32
	}
	shift := word(24)
	if shift > 6 || blocks > 1<<47 { // 64 KiB is the largest block: this is no superblock
		return 0, nil
	}
	return blocks << (10 + shift), nil
}
