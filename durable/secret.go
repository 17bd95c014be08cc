package durable

import (
	"fmt"
	"io"
	"os"
)

// ReadSecret reads a file that only its owner may use, of at most max bytes. An error names the file, and says how to
// cure it.
func ReadSecret(path string, max int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := private(f); err != nil {
		return nil, err
	}
	return readAll(f, max)
}

// Private returns the error of [ReadSecret] where others than its owner may use a file, and does not read it.
func Private(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return private(f)
}

// Read reads a file of at most max bytes. An error names the file.
func Read(path string, max int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, max)
}

func readAll(f *os.File, max int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(text) > max {
		err = fmt.Errorf("%s: has more than %d bytes", f.Name(), max)
	}
	return text, err
}

// private returns an error if anyone but its owner may use the file.
func private(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s: others may use it (mode %04o): run chmod 600 %s", f.Name(), mode, f.Name())
	}
	return nil
}
