package durable

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadSecret reads a file of at most max bytes that only its owner may use. An error names the file and the cure.
func ReadSecret(path string, max int) ([]byte, error) { return read(path, max, true) }

// Read reads a file of at most max bytes. An error names the file.
func Read(path string, max int) ([]byte, error) { return read(path, max, false) }

// Private returns the error of [ReadSecret] for a file that others than its owner may use. It does not read the file.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return private(path, info)
}

func read(path string, max int, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if secret {
		info, err := f.Stat()
		if err == nil {
			err = private(path, info)
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(text) > max {
		err = fmt.Errorf("%s: has more than %d bytes", path, max)
	}
	return text, err
}

func private(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s: others may use it (mode %04o): run chmod 600 %s", path, mode, path)
	}
	return nil
}
