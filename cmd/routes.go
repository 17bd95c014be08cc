package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"holdfast/cmd/control"
	"holdfast/snapshot"
)

// saveEvent is one line of the answer to POST /snapshot: progress, then a result or an error.
type saveEvent struct {
	Progress *snapshot.Progress `json:"progress,omitempty"`
	Saved    *snapshot.Meta     `json:"saved,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// saveBy asks a node for a backup and follows it.
func saveBy(ctx context.Context, c *control.Client, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	body, err := c.Call(ctx, http.MethodPost, "/snapshot")
	if err != nil {
		return snapshot.Meta{}, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e saveEvent
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&e); err != nil {
			return snapshot.Meta{}, fmt.Errorf("decode the answer of %s: %w", c.At, err)
		}
		switch {
		case e.Progress != nil:
			progress(*e.Progress)
		case e.Saved != nil:
			return *e.Saved, nil
		default:
			return snapshot.Meta{}, errors.New(e.Error)
		}
	}
	return snapshot.Meta{}, fmt.Errorf("the node ended while it saved: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
