// Package durable replaces small files atomically and durably: after a crash of the machine there is either the old
// file or the new one. It also locks files, writes large ones out piece by piece, reads small ones, and secrets that
// only their owner may use, and waits only for a while for a disk that may hang.
//
// Write writes a file under another name in the same directory, syncs and renames it, and syncs the directory. Without
// the first sync, a crash can leave the new name with an empty file. Without the second, the old file can come back
// (rename(2), fsync(2)). The library renameio does not sync the directory.
package durable
