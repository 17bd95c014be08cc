package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Fetch writes the database of a backup, decompressed and without the trailer, to a new file at path, and proves on the
// way all that Verify proves. If it returns nil, the file is durable; after an error there is none. The result is the
// sidecar, or what is known of a legacy backup. An encrypted backup needs an identity in opt. opt.Rate limits the
// writing to the file.
func Fetch(ctx context.Context, store Store, name, path string, opt Options) (meta Meta, err error) {
	meta, err = readMeta(ctx, store, name)
	if err != nil {
		return Meta{}, err
	}
	file, err := newTarget(path)
	if err != nil {
		return Meta{}, fmt.Errorf("fetch backup %s: %w", name, err)
	}
	defer func() {
		file.Close()
		if err != nil {
			err = errors.Join(fmt.Errorf("fetch backup %s: %w", name, err), os.Remove(path))
			meta = Meta{}
		}
	}()
	background(func() { meta, err = prove(ctx, store, meta, file, opt) })
	return meta, err
}
