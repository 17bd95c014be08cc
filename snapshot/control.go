package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// specObject has the specification of etcd-manager's cluster (kubernetes-sigs/etcd-manager, pkg/commands/vfs.go). kops
// writes it, and so does etcd-manager.
const specObject = controlDir + "/etcd-cluster-spec"

// ManagerSpec is the specification of etcd-manager's cluster: etcd.ClusterSpec (pkg/apis/etcd/etcdapi.proto).
type ManagerSpec struct {
	Members     int    `json:"memberCount"`
	EtcdVersion string `json:"etcdVersion"`
}

// UnmarshalJSON implements [json.Unmarshaler]. As protobuf's JSON, it takes the names in either style.
func (s *ManagerSpec) UnmarshalJSON(text []byte) error {
	var file struct {
		Members      int    `json:"memberCount"`
		Members2     int    `json:"member_count"`
		EtcdVersion  string `json:"etcdVersion"`
		EtcdVersion2 string `json:"etcd_version"`
	}
	err := json.Unmarshal(text, &file)
	*s = ManagerSpec{cmp.Or(file.Members, file.Members2), cmp.Or(file.EtcdVersion, file.EtcdVersion2)}
	return err
}

// Control describes etcd-manager's objects about its cluster in a store.
type Control struct {
	// Created means that there is the mark of an existing cluster. Without the mark, but with a spec, etcd-manager founds
	// an empty cluster over data that is in use.
	Created  bool         `json:"created"`
	Spec     *ManagerSpec `json:"spec,omitempty"` // nil if there is none
	Commands []string     `json:"commands,omitempty"`
}

// ReadControl reads the Control of a store.
func ReadControl(ctx context.Context, store Store) (Control, error) {
	var c Control
	commands, err := Commands(ctx, store)
	if err != nil {
		return c, err
	}
	for _, command := range commands {
		c.Commands = append(c.Commands, command.Name)
	}
	missing, err := markMissing(ctx, store)
	if err != nil {
		return c, err
	}
	c.Created = !missing
	text, err := readSmall(ctx, store, specObject)
	if errors.Is(err, ErrNotFound) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read %s: %w", specObject, err)
	}
	if err = json.Unmarshal(text, &c.Spec); err != nil {
		return Control{}, fmt.Errorf("decode %s: %w", specObject, err)
	}
	return c, nil
}

// KeepControl writes the missing parts, so that etcd-manager takes the cluster for an existing one, and for this one.
// Existing parts stay. The mark is written first: with the spec alone etcd-manager would found a cluster.
func KeepControl(ctx context.Context, store Store, spec ManagerSpec) error {
	missing, err := markMissing(ctx, store)
	if err != nil {
		return err
	}
	if missing {
		if err := writeMark(ctx, store); err != nil {
			return err
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := store.PutIfAbsent(ctx, specObject, text); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("write %s: %w", specObject, err)
	}
	return nil
}

// KeepMark writes the mark if it is missing beside a spec, and reports whether it was. Without a spec etcd-manager
// founds nothing, or does not use the store.
func KeepMark(ctx context.Context, store Store) (missing bool, err error) {
	if missing, err = markMissing(ctx, store); err != nil || !missing {
		return false, err
	}
	switch _, err := readSmall(ctx, store, specObject); {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", specObject, err)
	}
	return true, writeMark(ctx, store)
}

// markMissing reports whether etcd-manager would find no mark of an existing cluster. It treats an empty mark as an
// error.
func markMissing(ctx context.Context, store Store) (bool, error) {
	old, err := readSmall(ctx, store, createdObject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, fmt.Errorf("read %s: %w", createdObject, err)
	}
	return len(old) == 0, nil
}

// writeMark writes the mark if there is none or an empty one, with which nothing is lost.
func writeMark(ctx context.Context, store Store) error {
	text, err := json.Marshal(map[string]int64{"timestamp": time.Now().UnixNano()})
	if err != nil {
		return err
	}
	err = store.PutIfAbsent(ctx, createdObject, text)
	if errors.Is(err, ErrExists) {
		var empty bool
		if empty, err = markMissing(ctx, store); err == nil && empty {
			err = store.Put(ctx, createdObject, bytes.NewReader(text))
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", createdObject, err)
	}
	return nil
}

// Command is a command that etcd-manager-ctl has left in the store, in control/<Name>/_command.json.
type Command struct {
	Name string
	// Time is when it was given, by the clock of the machine where it was given.
	Time time.Time
	// Stored is when the store received it, by the store's clock.
	Stored time.Time
	// Backup is the backup to restore, or "" if the command asks for something else.
	Backup string
	// Problem says why the command cannot be read, or is "".
	Problem string
}

const commandObject = "_command.json"

// Commands returns the commands in the store, oldest first. A command that cannot be read has a Problem, and the time
// in its name.
func Commands(ctx context.Context, store Store) ([]Command, error) {
	objects, err := store.List(ctx, controlDir+"/")
	if err != nil {
		return nil, fmt.Errorf("list commands: %w", err)
	}
	var commands []Command
	for _, o := range objects {
		parts := strings.Split(o.Name, "/")
		if len(parts) != 3 || parts[2] != commandObject {
			continue
		}
		c := Command{Name: parts[1], Time: timeOf(parts[1]), Stored: o.Modified}
		text, err := readSmall(ctx, store, o.Name)
		switch {
		case errors.Is(err, ErrNotFound): // just carried out
			continue
		case err == nil:
			err = c.decode(text)
		case !errors.As(err, new(tooLarge)):
			return nil, fmt.Errorf("read command %s: %w", c.Name, err)
		}
		if err != nil {
			c.Problem = err.Error()
		}
		commands = append(commands, c)
	}
	slices.SortStableFunc(commands, func(a, b Command) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Name, b.Name))
	})
	return commands, nil
}

// decode decodes a command of etcd-manager-ctl: etcd.Command (kubernetes-sigs/etcd-manager,
// pkg/apis/etcd/etcdapi.proto) in proto3's JSON. Its timestamp is in nanoseconds.
func (c *Command) decode(text []byte) error {
	type restore struct {
		Backup string `json:"backup"`
	}
	var file struct {
		Timestamp jsonInt  `json:"timestamp"`
		Restore   *restore `json:"restoreBackup"`
		Restore2  *restore `json:"restore_backup"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("decode %s: %w", commandObject, err)
	}
	if file.Timestamp != 0 {
		c.Time = time.Unix(0, int64(file.Timestamp)).UTC()
	}
	order := cmp.Or(file.Restore, file.Restore2)
	if order == nil {
		return nil // it asks for something else
	}
	if err := checkBackupName(order.Backup); err != nil {
		return fmt.Errorf("decode %s: restoreBackup.backup: %w", commandObject, err)
	}
	c.Backup = order.Backup
	return nil
}

// DeleteCommand removes a command that has been carried out, as etcd-manager does, if it still exists.
func DeleteCommand(ctx context.Context, store Store, name string) error {
	if !isSegment(name) {
		return fmt.Errorf("delete command: %q is not the name of one", name)
	}
	if err := store.Delete(ctx, controlDir+"/"+name+"/"+commandObject); err != nil {
		return fmt.Errorf("delete command %s: %w", name, err)
	}
	return nil
}
