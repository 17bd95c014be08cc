package certificates

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
)

// FreshFile is a file that must not exist yet.
type FreshFile struct {
	Path string
	Text []byte
	Mode fs.FileMode
}

// Absent returns an error if one of the files exists.
func Absent(files []FreshFile) error {
	for _, f := range files {
		if _, err := os.Lstat(f.Path); err == nil {
			return fmt.Errorf("%s exists, and is never overwritten: name another one", f.Path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// WriteFresh makes a directory and writes the files into it. If one fails, it removes those that it wrote.
func WriteFresh(dir string, files []FreshFile) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i, n := range files {
		f, err := os.OpenFile(n.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, n.Mode)
		if err == nil {
			_, err = f.Write(n.Text)
			err = errors.Join(err, f.Sync(), f.Close())
			i++
		}
		if err != nil {
			for _, gone := range files[:i] {
				err = errors.Join(err, os.Remove(gone.Path))
			}
			return err
		}
	}
	return nil
}

// AuthorityFiles returns the files of the authorities in the layout of tls.ca-dir. It returns an error if one exists.
func AuthorityFiles(dir string, given pki.Authorities) ([]FreshFile, error) {
	var files []FreshFile
	for _, a := range []struct {
		name      string
		authority pki.Authority
	}{{config.GivenClientsCA, given.Clients}, {config.GivenPeersCA, given.Peers}} {
		bundle, key, err := a.authority.Encode()
		if err != nil {
			return nil, err
		}
		files = append(files, FreshFile{filepath.Join(dir, a.name+".crt"), bundle, 0o644},
			FreshFile{filepath.Join(dir, a.name+".key"), key, 0o600})
	}
	return files, Absent(files)
}

// MakeAuthorities makes both authorities, and returns the files to write into dir.
func MakeAuthorities(dir string, life time.Duration) ([]FreshFile, error) {
	var made pki.Authorities
	var err error
	if made.Clients, err = pki.NewAuthority(config.GivenClientsCA, life); err == nil {
		made.Peers, err = pki.NewAuthority(config.GivenPeersCA, life)
	}
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return AuthorityFiles(dir, made)
}
