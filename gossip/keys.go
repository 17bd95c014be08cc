package gossip

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/hashicorp/memberlist"
)

// readKeys loads the key file. A key others may read is refused, because it would be no key; so is a
// file without keys, because the config asked for authentication and must not quietly get none.
func readKeys(path string) (*memberlist.Keyring, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read gossip.key-file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("read gossip.key-file %s: mode is %04o, others may read it; run chmod 0600 %s", path, mode, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read gossip.key-file: %w", err)
	}
	var keys [][]byte
	for i, line := range lines(string(text)) {
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			// The line itself is secret, so the error shows only which one it is.
			return nil, fmt.Errorf("read gossip.key-file %s: key %d is not base64", path, i+1)
		}
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("read gossip.key-file %s: key %d must have 16, 24 or 32 bytes, has %d", path, i+1, len(key))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read gossip.key-file %s: it holds no key", path)
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("read gossip.key-file %s: %w", path, err)
	}
	return ring, nil
}
