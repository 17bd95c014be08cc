package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	if !segment.MatchString(name) {
		return fmt.Errorf("delete command: %q is not the name of one", name)
	}
	if err := store.Delete(ctx, controlDir+"/"+name+"/"+commandObject); err != nil {
		return fmt.Errorf("delete command %s: %w", name, err)
	}
	return nil
}
