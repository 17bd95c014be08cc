package ebs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"holdfast/layout"
	"holdfast/volume"
)

// Inspect implements [Files].
func (m *Machine) Inspect(dir string) (volume.Found, error) {
	f, err := volume.Inspect(dir)
	if err != nil && !errors.Is(err, volume.ErrNewer) {
		err = fmt.Errorf("inspect %s: %w", dir, err)
	}
	return f, err
}

// Running implements [Files].
func (m *Machine) Running(dir string) (string, error) { return layout.Running(dir) }

// Identify implements [Files].
func (m *Machine) Identify(dir string, id volume.Identity) error { return id.Write(dir, nil) }

// SetAside implements [Files].
func (m *Machine) SetAside(dir string) error { return volume.SetAside(dir, nil) }

// Journal implements [Memory]. A journal that cannot be read is an error, not an empty journal: it may record a detach
// that can still be executed.
func (m *Machine) Journal() (Journal, error) {
	path := m.journal
	data, err := volume.ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{}, nil
	}
	if err != nil {
		return Journal{}, fmt.Errorf("read the journal: %w", err)
	}
	var j Journal
	switch err := volume.Decode(data, &j); {
	case errors.Is(err, volume.ErrNewer):
		return Journal{}, fmt.Errorf("read the journal %s: %w", path, err)
	case err != nil:
		return Journal{}, fmt.Errorf("read the journal %s: it is damaged (%w), and may have known of a detach that can yet "+
			"be executed: wait %s from the last time holdfast ran here, then remove the file", path, err, zombie)
	}
	return j, nil
}

// Remember implements [Memory].
func (m *Machine) Remember(j Journal) error {
	j.Version = 1
	data, err := json.Marshal(j)
	if err == nil {
		err = volume.MakeDirs(filepath.Dir(m.journal))
	}
	if err == nil {
		err = volume.ReplaceFile(m.journal, string(data)+"\n", nil)
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}
