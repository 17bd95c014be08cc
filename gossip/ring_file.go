package gossip

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// madeMark is before the time in the comment of a key that a rotation has made.
const madeMark = "made "

// fileKeys are those of a gossip.key-file: one per line in base64, # begins a comment.
type fileKeys struct{ path string }

// CheckKeyFile returns why a gossip.key-file cannot be used, nil if it can.
func CheckKeyFile(path string) error {
	_, err := (&fileKeys{path: path}).load()
	return err
}

func (f *fileKeys) describe() Keys { return Keys{Origin: KeysFile} }

// load reads the file. A key others may read is refused, because it would be no key; so is a file without keys, because
// the config asked for authentication and must not quietly get none.
func (f *fileKeys) load() ([]fullKey, error) {
	_, _, keys, err := f.parse()
	return keys, err
}

// parse returns the lines that hold no key, those that do, and these keys.
func (f *fileKeys) parse() (others, holding []string, keys []fullKey, err error) {
	text, err := readSecret(f.path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read gossip.key-file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		bare, comment, _ := strings.Cut(line, "#")
		if bare = strings.TrimSpace(bare); bare == "" {
			others = append(others, strings.TrimRight(line, "\r\n"))
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(bare)
		if err != nil {
			// The line itself is secret, so the error shows only which one it is.
			return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: key %d is not base64", f.path, len(keys)+1)
		}
		if err := memberlist.ValidateKey(secret); err != nil {
			return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: key %d must have 16, 24 or 32 bytes, has %d", f.path, len(keys)+1, len(secret))
		}
		k := newKey(secret)
		if _, made, ok := strings.Cut(comment, madeMark); ok {
			k.Made, _ = time.Parse(time.RFC3339, strings.TrimSpace(made)) // otherwise it is an operator's own words
		}
		if slices.ContainsFunc(keys, func(a fullKey) bool { return a.Fingerprint == k.Fingerprint }) {
			continue
		}
		keys, holding = append(keys, k), append(holding, strings.TrimSpace(line))
	}
	if len(keys) == 0 {
		return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: it holds no key", f.path)
	}
	if len(keys) > maxKeys {
		return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: it holds %d keys, at most %d are taken", f.path, len(keys), maxKeys)
	}
	return others, holding, keys, nil
}

// readSecret reads a file that nobody but its owner may read.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: mode is %04o, others may read it; run chmod 0600 %s", path, mode, path)
	}
	if info.Size() > maxKeyFile {
		return nil, fmt.Errorf("%s: has %d bytes, at most %d are read", path, info.Size(), maxKeyFile)
	}
	text := make([]byte, info.Size())
	n, err := f.ReadAt(text, 0)
	if n < len(text) {
		return nil, err
	}
	return text, nil
}

// maxKeyFile bounds a file of keys, in bytes.
const maxKeyFile = 64 << 10

// save keeps what the operator wrote beside the keys, in its order before them.
func (f *fileKeys) save(keys []fullKey) error {
	others, holding, have, err := f.parse()
	if err != nil {
		return err
	}
	out := others
	for _, k := range keys {
		line := KeyLine(k.secret, k.Made)
		if i := slices.IndexFunc(have, func(a fullKey) bool { return a.Fingerprint == k.Fingerprint }); i >= 0 {
			line = holding[i]
		}
		out = append(out, line)
	}
	if err := replaceFile(f.path, []byte(strings.Join(out, "\n")+"\n")); err != nil {
		return fmt.Errorf("write gossip.key-file: %w", err)
	}
	return nil
}

// KeyLine is a line of a gossip.key-file.
func KeyLine(secret []byte, made time.Time) string {
	return base64.StdEncoding.EncodeToString(secret) + " # " + madeMark + made.UTC().Format(time.RFC3339)
}

func (f *fileKeys) find(o KeyOrder) (fullKey, error) {
	if err := memberlist.ValidateKey(o.Secret); err != nil {
		return fullKey{}, fmt.Errorf("install gossip key %s: it must have 16, 24 or 32 bytes, has %d", o.Key.Fingerprint,
			len(o.Secret))
	}
	k := newKey(o.Secret)
	k.Made = o.Key.Made
	if k.Fingerprint != o.Key.Fingerprint {
		return fullKey{}, fmt.Errorf("install gossip key %s: what was sent is another one", o.Key.Fingerprint)
	}
	return k, f.writable()
}

// writable makes and removes a file beside the file, for that is how it is replaced.
func (f *fileKeys) writable() error {
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return fmt.Errorf("gossip.key-file: %w", err)
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".gossip-key-*")
	if err != nil {
		return fmt.Errorf("gossip.key-file %s cannot be replaced: %w; let holdfast write there, or put the same new file on each node yourself", f.path, errors.Unwrap(err))
	}
	return errors.Join(t.Close(), os.Remove(t.Name()))
}

// replaceFile writes a file durably and all at once. One that is there keeps its mode and owner.
func replaceFile(path string, text []byte) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir := filepath.Dir(path)
	t, err := os.CreateTemp(dir, ".gossip-key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = t.Close()
			_ = os.Remove(t.Name())
		}
	}()
	if info, err := os.Stat(path); err == nil {
		own, _ := info.Sys().(*syscall.Stat_t)
		if own != nil && (int(own.Uid) != os.Geteuid() || int(own.Gid) != os.Getegid()) {
			if err := t.Chown(int(own.Uid), int(own.Gid)); err != nil {
				return err
			}
		}
		if err := t.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
	}
	_, err = t.Write(text)
	if err = cmp.Or(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
