package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
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

// authorityFiles are authorities as tls.ca-dir has them. The error says which of the files is there already.
func authorityFiles(dir string, given pki.Authorities) ([]freshFile, error) {
	var files []freshFile
	for _, a := range []struct {
		name      string
		authority pki.Authority
	}{{config.GivenClientsCA, given.Clients}, {config.GivenPeersCA, given.Peers}} {
		bundle, key, err := a.authority.Encode()
		if err != nil {
			return nil, err
		}
		files = append(files, freshFile{filepath.Join(dir, a.name+".crt"), bundle, 0o644},
			freshFile{filepath.Join(dir, a.name+".key"), key, 0o600})
	}
	return files, absent(files)
}
