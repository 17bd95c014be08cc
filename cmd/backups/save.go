package backups

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
	"holdfast/cmd/node"
	"holdfast/snapshot"
)

// SaveBy asks a node to save a backup, and reports its progress.
func SaveBy(ctx context.Context, c *control.Client, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	body, err := c.Call(ctx, http.MethodPost, "/snapshot")
	if err != nil {
		return snapshot.Meta{}, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e node.SaveEvent
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
