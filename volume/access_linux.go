package volume

import "golang.org/x/sys/unix"

// noAccessTime opens a file without updating its time of access: open(2).
const noAccessTime = unix.O_NOATIME
