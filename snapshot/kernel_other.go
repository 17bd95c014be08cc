//go:build !linux

package snapshot

import "os"

// On another system backups are looked at, and no member serves beside that: nothing has to give way.

func lowerThread(int) {}

func forget(*os.File) {}

func writeOut(*os.File, int64, int64, int64) error { return nil }
