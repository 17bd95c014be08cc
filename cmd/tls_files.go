package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"holdfast/cmd/config"
)

// freshFile is a file that is not there yet.
type freshFile struct {
	path string
	text []byte
	mode fs.FileMode
}

// absent says which of the files is there already.
func absent(files []freshFile) error {
	for _, f := range files {
		if _, err := os.Lstat(f.path); err == nil {
			return fmt.Errorf("%s exists, and is never overwritten: name another one", f.path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeFresh writes files into a directory, which it makes. Of what it wrote nothing stays if one of them fails.
func writeFresh(dir string, files []freshFile) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i, n := range files {
		f, err := os.OpenFile(n.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, n.mode)
		if err == nil {
			_, err = f.Write(n.text)
			err = errors.Join(err, f.Sync(), f.Close())
			i++
		}
		if err != nil {
			for _, gone := range files[:i] {
				err = errors.Join(err, os.Remove(gone.path))
			}
			return err
		}
	}
	return nil
}

// durationFlag is a flag that also takes days, weeks and years, as the configuration does.
type durationFlag struct{ d *time.Duration }

func (f *durationFlag) String() string {
	if f.d == nil {
		return ""
	}
	return config.FormatDuration(*f.d)
}

func (f *durationFlag) Type() string { return "duration" }

// Set reads what the configuration would.
func (f *durationFlag) Set(text string) error {
	d, err := config.ParseDuration(text)
	if err == nil {
		*f.d = d
	}
	return err
}
