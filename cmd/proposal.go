package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/backups"
	"holdfast/cmd/node"
	"holdfast/cmd/proposal"
)

// proposalFlags are the flags of the commands that end a generation.
type proposalFlags struct {
	proposal.Options
	format output
}

// add gives c the flags that all these commands have.
func (f *proposalFlags) add(c *cobra.Command) {
	readsConfig(c)
	c.Flags().StringSliceVar(&f.Overrule, "overrule", nil,
		"`disks` that objected to an earlier proposal, or whose beacon is in the store")
	c.Flags().DurationVar(&f.Timeout, "timeout", 30*time.Minute, "abort after this `time`, if that is still possible")
	f.format.add(c)
}

// check returns an error for invalid flags, and trims the slots in --lost.
func (f *proposalFlags) check() error {
	for i, slot := range f.Lost {
		if f.Lost[i] = strings.TrimSpace(slot); f.Lost[i] == "" {
			return usage(fmt.Errorf("--lost: a slot has no name in %q; say slots with commas between, as b,c",
				strings.Join(f.Lost, ",")))
		}
	}
	return atLeast("timeout", time.Second, f.Timeout)
}

// operator returns the [proposal.Operator] of the command: its flags, configuration, node, backups and terminal.
func (f *proposalFlags) operator(c *cobra.Command) (o proposal.Operator, err error) {
	if err := f.check(); err != nil {
		return o, err
	}
	cfg, client, err := loadClient(c)
	if err != nil {
		return o, err
	}
	o = proposal.Operator{Name: operator(), Config: cfg, Node: client, Options: f.Options}
	o.Bump = cfg.Restore.RevisionBump
	o.Terminal = proposal.Terminal{Out: c.OutOrStdout(), Err: c.ErrOrStderr(), JSON: f.format.json(),
		Ask: func(ctx context.Context, question string) error { return confirm(ctx, c, question) }}
	if o.Backups, err = backups.Open(c.Context(), cfg, o.Name, o.Err); err == nil {
		o.Signer = node.OrderSigner(cfg, o.Backups.Store)
	}
	return o, err
}
