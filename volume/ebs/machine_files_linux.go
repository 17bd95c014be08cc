package ebs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"holdfast/layout"
	"holdfast/volume"
)

// logName is the file on the volume that says who held it when. It is for people: nothing is decided by it.
const logName = "claims.log"

// maxLog bounds that file, in bytes. When it is full the older half is dropped.
const maxLog = 64 << 10

// entry is a line of the log.
type entry struct {
	Time     time.Time `json:"time"`
	Cluster  string    `json:"cluster"`
	Slot     string    `json:"slot"`
	Volume   string    `json:"volume"`
	Epoch    uint64    `json:"epoch"`
	Instance string    `json:"instance,omitempty"`
}

// Inspect implements [Files]. An identity that a newer holdfast wrote is an error, not damaged.
func (m *Machine) Inspect(dir string) (volume.Found, error) {
	f, err := volume.Inspect(dir, logName, logName+volume.TempSuffix)
	if err != nil && !errors.Is(err, volume.ErrNewer) {
		err = fmt.Errorf("inspect %s: %w", dir, err)
	}
	return f, err
}

// Running implements [Files].
func (m *Machine) Running(dir string) (string, error) { return layout.Running(dir) }

// Identify implements [Files], and adds a line to the log.
func (m *Machine) Identify(dir string, id volume.Identity) error {
	if err := id.Write(dir, nil); err != nil {
		return fmt.Errorf("write the identity: %w", err)
	}
	m.mu.Lock()
	instance := m.instance
	m.mu.Unlock()
	e := entry{Time: time.Now().UTC(), Cluster: id.Cluster, Slot: id.Slot, Volume: id.Volume, Epoch: id.Epoch,
		Instance: instance}
	if err := appendLog(filepath.Join(dir, logName), e); err != nil {
		m.log.Warn("the claim could not be added to the log on the volume", zap.String("file", logName), zap.Error(err))
	}
	return nil
}

// appendLog adds a line, durably.
func appendLog(path string, e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	lines, err := readLog(path)
	if err != nil {
		return err
	}
	lines = append(append(lines, line...), '\n')
	if len(lines) > maxLog {
		lines = fromLine(lines[len(lines)-maxLog/2:])
	}
	return volume.ReplaceFile(path, string(lines), nil)
}

// readLog returns the end of the log. What is no regular file is not followed, and replaced.
func readLog(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	from := max(0, info.Size()-maxLog)
	data, err := io.ReadAll(io.NewSectionReader(f, from, maxLog))
	if from > 0 {
		data = fromLine(data)
	}
	if n := len(data); n > 0 && data[n-1] != '\n' {
		data = append(data, '\n')
	}
	return data, err
}

// fromLine cuts off the line that lines begins in the middle of.
func fromLine(lines []byte) []byte {
	_, rest, _ := bytes.Cut(lines, []byte("\n"))
	return rest
}

// SetAside implements [Files].
func (m *Machine) SetAside(dir string) error { return volume.SetAside(dir, nil) }

// Journal implements [Memory]. A journal that cannot be read is an error, not an empty one: it may know of a
// detach that can yet be executed.
func (m *Machine) Journal() (Journal, error) {
	path := m.cfg.JournalPath
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
	m.mu.Lock()
	m.instance = j.Instance
	m.mu.Unlock()
	return j, nil
}

// Remember implements [Memory].
func (m *Machine) Remember(j Journal) error {
	j.Version = 1
	data, err := json.Marshal(j)
	if err == nil {
		err = volume.MakeDirs(filepath.Dir(m.cfg.JournalPath))
	}
	if err == nil {
		err = volume.ReplaceFile(m.cfg.JournalPath, string(data)+"\n", nil)
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	m.mu.Lock()
	m.instance = j.Instance
	m.mu.Unlock()
	return nil
}
