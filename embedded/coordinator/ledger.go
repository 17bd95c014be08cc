package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// Files of this package on the volume.
const (
	ledgerFile    = "founding.json"
	addressesFile = "addresses.json"
)

// EtcdDir is the name of etcd's data directory on the volume.
const EtcdDir = "etcd"

// Versions of the ledger. It is written in the lowest version that can express it. A ledger with the promise to serve
// TLS has a version that an older holdfast, which would start the member without TLS, does not read.
const (
	ledgerAny     = 1
	ledgerSecured = 2
)

// ledgerV1 is the ledger as stored. Etcd is the version that last wrote the log: a log written by the running version
// needs no check before the start.
type ledgerV1 struct {
	Version int    `json:"version"`
	Etcd    string `json:"etcd,omitempty"`
	plan.Ledger
}

// readLedger reads the ledger of a volume; found is false when there is none.
func readLedger(dir string) (l ledgerV1, found bool, err error) {
	path := filepath.Join(dir, ledgerFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ledgerV1{}, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read founding ledger: %w", err)
	}
	switch l, err = decodeLedger(data); {
	case errors.Is(err, plan.ErrUnsupported):
		return ledgerV1{}, true, fmt.Errorf("%s: %w: run that version here, or a newer one, or `holdfast volume "+
			"set-aside` if the volume's content may be set aside", path, err)
	case err != nil:
		return ledgerV1{}, true, fmt.Errorf("%s: %w; it is not repaired by guessing: restore it, or run "+
			"`holdfast volume set-aside` if the volume's content may be set aside", path, err)
	}
	return l, true, nil
}

func decodeLedger(data []byte) (l ledgerV1, err error) {
	var v struct{ Version int } // in a later version, the other fields may have other types
	if err := json.Unmarshal(data, &v); err != nil {
		return l, fmt.Errorf("decode founding ledger: %w", err)
	}
	switch {
	case v.Version > ledgerSecured:
		return l, fmt.Errorf("founding ledger has version %d, this program knows %d: %w", v.Version, ledgerSecured,
			plan.ErrUnsupported)
	case v.Version < ledgerAny:
		return l, fmt.Errorf("founding ledger has version %d, this program knows %d", v.Version, ledgerSecured)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("decode founding ledger: %w", err)
	}
	if err := l.Valid(); err != nil {
		return l, fmt.Errorf("founding ledger is invalid: %w", err)
	}
	return l, nil
}

// write makes the ledger durable.
func (l ledgerV1) write(dir string) error {
	if l.Version = ledgerAny; l.Secured != nil {
		l.Version = ledgerSecured
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("encode founding ledger: %w", err)
	}
	return replace(filepath.Join(dir, ledgerFile), append(data, '\n'))
}

// removeLedger makes the volume one that has promised nothing.
func removeLedger(dir string) error {
	if err := os.Remove(filepath.Join(dir, ledgerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove founding ledger: %w", err)
	}
	return durable.SyncDir(dir)
}

// readAddresses returns the last known address of each slot. They only help, so an unreadable file counts as empty.
func readAddresses(dir string) map[string]netip.Addr {
	known := map[string]netip.Addr{}
	data, err := os.ReadFile(filepath.Join(dir, addressesFile))
	if err != nil || json.Unmarshal(data, &known) != nil {
		return map[string]netip.Addr{}
	}
	return known
}

func writeAddresses(dir string, known map[string]netip.Addr) error {
	data, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("encode addresses: %w", err)
	}
	return replace(filepath.Join(dir, addressesFile), append(data, '\n'))
}

// replace durably replaces a small file on the volume that only this process writes.
func replace(path string, data []byte) error {
	if err := (durable.File{Temp: path + ".tmp"}).Write(path, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
