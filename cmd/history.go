package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
)

// historyFlags are the flags of `holdfast history`.
type historyFlags struct {
	since  time.Duration
	count  int
	follow bool
	file   string
	format output
}

func newHistoryCommand() *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:   "history",
		Short: "Show what this node decided and did, why, and the result",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(atLeast("since", 0, f.since), atLeast("number", 0, f.count)); err != nil {
				return err
			}
			if f.follow && f.file != "" {
				return usage(errors.New("--follow: a running node is followed, no file"))
			}
			return f.run(c)
		},
	}
	readsConfig(c)
	c.Flags().Var(&durationFlag{&f.since}, "since", "only entries of this `time`, as 2h or 7d; 0s: all")
	c.Flags().IntVarP(&f.count, "number", "n", 50, "show the newest `number` of entries; 0: all")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "keep printing new entries, until Ctrl-C")
	c.Flags().StringVar(&f.file, "file", "", "read this `file` instead of asking the node")
	return f.format.add(c)
}

func (f historyFlags) run(c *cobra.Command) error {
	after := time.Time{}
	if f.since > 0 {
		after = time.Now().Add(-f.since)
	}
	h, client, err := f.read(c, after)
	if err != nil {
		return err
	}
	entries := slices.DeleteFunc(h.Entries, func(e coordinator.Entry) bool { return !e.Time.After(after) })
	if f.count > 0 {
		entries = entries[max(0, len(entries)-f.count):]
	}
	if h.Problem != "" {
		fmt.Fprintf(c.ErrOrStderr(), "holdfast: %s\n", h.Problem)
	}
	if err := f.write(c.OutOrStdout(), entries); err != nil || !f.follow {
		return err
	}
	if n := len(h.Entries); n > 0 {
		after = h.Entries[n-1].Time
	}
	return f.more(c, client, after)
}

// read asks the node for its history. If no node answers, it reads the volumes. The client is nil if no node was asked.
func (f historyFlags) read(c *cobra.Command, after time.Time) (coordinator.History, *control.Client, error) {
	if f.file != "" {
		entries, err := coordinator.ReadHistoryFile(f.file)
		if entries == nil && err != nil {
			return coordinator.History{}, nil, fmt.Errorf("read the history: %w", err)
		}
		h := coordinator.History{Entries: entries}
		if err != nil {
			h.Problem = err.Error()
		}
		return h, nil, nil
	}
	cfg, client, err := loadClient(c)
	if err != nil {
		return coordinator.History{}, nil, err
	}
	h, err := node.AskHistory(c.Context(), client, after)
	if err == nil || f.follow || !alone(cfg, err) {
		return h, client, err
	}
	h, root, err := node.HistoryAlone(cfg, err)
	if err == nil {
		fmt.Fprintf(c.ErrOrStderr(), "holdfast: no node answers: reading the volumes in %s\n", root)
	}
	return h, nil, err
}

func (f historyFlags) write(w io.Writer, entries []coordinator.Entry) error {
	if !f.format.json() {
		_, err := io.WriteString(w, show.History(entries))
		return err
	}
	enc := json.NewEncoder(w)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// followEvery is how often --follow asks the node for new entries.
const followEvery = 500 * time.Millisecond

// more prints the entries after a time as they are made. While the node restarts, it keeps asking, and says so once.
func (f historyFlags) more(c *cobra.Command, client *control.Client, after time.Time) error {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for failed := false; ; {
		select {
		case <-c.Context().Done():
			return nil
		case <-t.C:
		}
		h, err := node.AskHistory(c.Context(), client, after)
		if err != nil && !failed && c.Context().Err() == nil {
			fmt.Fprintf(c.ErrOrStderr(), "holdfast: %v; asking again until it answers\n", err)
		}
		if failed = err != nil; failed || len(h.Entries) == 0 {
			continue
		}
		after = h.Entries[len(h.Entries)-1].Time
		if err := f.write(c.OutOrStdout(), h.Entries); err != nil {
			return err
		}
	}
}
