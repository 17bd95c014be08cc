package gossip

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"holdfast/durable"
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
	text, err := durable.ReadSecret(f.path, maxKeyFile)
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
			return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: key %d must have 16, 24 or 32 bytes, has %d", f.path,
				len(keys)+1, len(secret))
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
		return nil, nil, nil, fmt.Errorf("read gossip.key-file %s: it holds %d keys, at most %d are taken", f.path, len(keys),
			maxKeys)
	}
	return others, holding, keys, nil
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
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = target
	}
	if err := (durable.File{Keep: 0o600}).Write(path, []byte(strings.Join(out, "\n")+"\n")); err != nil {
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
	t, err := os.CreateTemp(filepath.Dir(path), durable.Temporary)
	if err != nil {
		return fmt.Errorf("gossip.key-file %s cannot be replaced: %w; let holdfast write there, or put the same new file on each node yourself", f.path, errors.Unwrap(err))
	}
	return errors.Join(t.Close(), os.Remove(t.Name()))
}
