package ec2test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client operates a Cloud in another process. Its methods are those of Cloud of the same name.
type Client struct {
	URL string // of the Server
}

// AddInstance adds a machine and returns its device root.
func (c Client) AddInstance(ctx context.Context, i Instance) (root string, err error) {
	err = c.call(ctx, "add-instance", arguments{Instance: &i}, &root)
	return root, err
}

// AddVolume adds an available volume and returns its ID.
func (c Client) AddVolume(ctx context.Context, v Volume) (id string, err error) {
	err = c.call(ctx, "add-volume", arguments{Volume: &v}, &id)
	return id, err
}

// TerminateInstance ends a machine, whose processes must be dead.
func (c Client) TerminateInstance(ctx context.Context, id string) error {
	return c.call(ctx, "terminate", arguments{ID: id}, nil)
}

// StopInstance stops a machine, whose processes must be dead.
func (c Client) StopInstance(ctx context.Context, id string) error {
	return c.call(ctx, "stop", arguments{ID: id}, nil)
}

// StartInstance starts a stopped machine.
func (c Client) StartInstance(ctx context.Context, id string) error {
	return c.call(ctx, "start", arguments{ID: id}, nil)
}

// SetInstanceState changes what EC2 says of an instance.
func (c Client) SetInstanceState(ctx context.Context, id, state string) error {
	return c.call(ctx, "set-state", arguments{ID: id, State: state}, nil)
}

// SetTag sets a tag of a volume.
func (c Client) SetTag(ctx context.Context, volume, key, value string) error {
	return c.call(ctx, "set-tag", arguments{ID: volume, Key: key, Value: value}, nil)
}

// DeleteTag removes a tag of a volume.
func (c Client) DeleteTag(ctx context.Context, volume, key string) error {
	return c.call(ctx, "delete-tag", arguments{ID: volume, Key: key}, nil)
}

// GrowVolume makes a volume larger, in GiB.
func (c Client) GrowVolume(ctx context.Context, volume string, gib int64) error {
	return c.call(ctx, "grow", arguments{ID: volume, Size: gib}, nil)
}

// ForceDetach takes a volume away from its holder.
func (c Client) ForceDetach(ctx context.Context, volume string) error {
	return c.call(ctx, "force-detach", arguments{ID: volume}, nil)
}

// Yank makes the device of a volume fail and vanish.
func (c Client) Yank(ctx context.Context, volume string) error {
	return c.call(ctx, "yank", arguments{ID: volume}, nil)
}

// Freeze makes every write to the mounted filesystem of a volume wait.
func (c Client) Freeze(ctx context.Context, volume string) error {
	return c.call(ctx, "freeze", arguments{ID: volume}, nil)
}

// Thaw ends Freeze.
func (c Client) Thaw(ctx context.Context, volume string) error {
	return c.call(ctx, "thaw", arguments{ID: volume}, nil)
}

// Inject puts a fault into force.
func (c Client) Inject(ctx context.Context, f Fault) error {
	return c.call(ctx, "inject", arguments{Fault: &f}, nil)
}

// Clear ends all faults.
func (c Client) Clear(ctx context.Context) error { return c.call(ctx, "clear", arguments{}, nil) }

// Dump returns everything the Cloud knows.
func (c Client) Dump(ctx context.Context) (d Dump, err error) {
	err = c.call(ctx, "dump", arguments{}, &d)
	return d, err
}

func (c Client) call(ctx context.Context, word string, a arguments, result any) error {
	body, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+controlPath+word,
		bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", word, strings.TrimSpace(string(text)))
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("%s: read the answer: %w", word, err)
	}
	return nil
}
