// Package durable replaces small files atomically and durably: a crash of the machine leaves the old file or the new
// one. It also reads those that nobody but their owner may use.
//
// A file is written under another name in the same directory, synced, renamed, and the directory is synced: without the
// first sync a crash can leave the new name with nothing in it, without the second the old file can come back
// (rename(2), fsync(2)). renameio, the library for this, does not sync the directory.
package durable
