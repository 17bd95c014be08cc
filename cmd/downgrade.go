package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

// downgradePoll is how often the command asks for the state of the downgrade.
const downgradePoll = 500 * time.Millisecond

// downgradeFlags are the flags of `holdfast downgrade`.
type downgradeFlags struct {
	to      string
	cancel  bool
	dryRun  bool
	yes     bool
	timeout time.Duration
}

func newDowngradeCommand() *cobra.Command {
	var f downgradeFlags
	c := asking(&cobra.Command{
		Use:   "downgrade {--to MINOR | --cancel}",
		Short: "Prepare the cluster for a holdfast that embeds an older etcd",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if f.cancel == (f.to != "") {
			return usage(errors.New("say either --to MINOR, as 3.6, or --cancel"))
		}
		if err := atLeast("timeout", time.Second, f.timeout); err != nil {
			return err
		}
		if f.cancel {
			return f.giveUp(c, client)
		}
		return f.run(c, client)
	})
	fs := c.Flags()
	fs.StringVar(&f.to, "to", "", "the `minor` of etcd to go down to, such as 3.6")
	fs.BoolVar(&f.cancel, "cancel", false, "cancel the downgrade that is under way")
	fs.BoolVar(&f.dryRun, "dry-run", false, "show what would be done and what prevents it; change nothing")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait until every member has the older version")
	return c
}

func (f downgradeFlags) run(c *cobra.Command, client *control.Client) error {
	ctx, out := c.Context(), c.OutOrStdout()
	to := control.Args{"to": f.to}
	var d health.Downgrade
	if err := client.Get(ctx, "GET /downgrade", &d, to); err != nil {
		return err
	}
	if d.Phase == health.DowngradeRefused {
		return fmt.Errorf("no downgrade to etcd %s:\n  - %s", d.To, strings.Join(d.Why, "\n  - "))
	}
	if d.Phase == health.DowngradePossible || f.dryRun {
		fmt.Fprint(out, show.Downgrade(d, node.DowngradeBackup))
	}
	if f.dryRun {
		return say(c, "nothing was changed\n")
	}
	if d.Phase == health.DowngradePossible {
		if err := confirmUnless(f.yes, c, "Downgrade?"); err != nil {
			return err
		}
		if err := client.Do(ctx, "POST /downgrade", to); err != nil {
			return err
		}
		fmt.Fprintln(out, "there is a backup, and etcd was told")
	}
	d, err := f.await(ctx, client, to, out)
	if err != nil {
		return err
	}
	return say(c, "%s", show.Downgrade(d, node.DowngradeBackup))
}

// await waits until every member has the older version.
func (f downgradeFlags) await(ctx context.Context, client *control.Client, to control.Args,
	out io.Writer) (d health.Downgrade, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var said []string
	for {
		err := client.Get(ctx, "GET /downgrade", &d, to)
		why := d.Why
		if err != nil {
			why = []string{err.Error()}
		}
		switch {
		case err == nil && d.Phase == health.DowngradeRefused:
			return d, fmt.Errorf("the downgrade to etcd %s was given up meanwhile: %s", d.To, strings.Join(d.Why, "; "))
		case err == nil && (d.Phase == health.DowngradeReady || d.Phase == health.DowngradeDone):
			return d, nil
		case ctx.Err() == nil && !slices.Equal(said, why):
			said = why
			fmt.Fprintf(out, "waiting: %s\n", strings.Join(said, ", "))
		}
		select {
		case <-ctx.Done():
			return d, fmt.Errorf("not every member has the version of etcd %s yet (%s); the downgrade continues by itself: "+
				"give the command again to follow it, or --cancel",
				f.to, strings.Join(said, ", "))
		case <-time.After(downgradePoll):
		}
		d = health.Downgrade{}
	}
}

func (f downgradeFlags) giveUp(c *cobra.Command, client *control.Client) error {
	ctx := c.Context()
	self, err := selfOf(ctx, client)
	if err != nil {
		return err
	}
	e := self.Etcd
	switch {
	case e == nil:
		return fmt.Errorf("node %s runs no member; ask one that does: %s", self.Node, self.Why)
	case e.Downgrade == "":
		return say(c, "no downgrade is under way; the cluster is at etcd %s\n", e.ClusterVersion)
	case f.dryRun:
		return say(c, "the downgrade to etcd %s would be given up; nothing was changed\n", e.Downgrade)
	}
	if err := confirmUnless(f.yes, c, "Give up the downgrade to etcd "+e.Downgrade+"?"); err != nil {
		return err
	}
	if err := client.Do(ctx, "DELETE /downgrade"); err != nil {
		return err
	}
	return say(c, "the downgrade to etcd %s is given up. The cluster rises again within seconds if every member runs a "+
		"newer etcd, and else when\n"+
		"the last one does; a binary that embeds %s cannot be started after that.\n", e.Downgrade, e.Downgrade)
}
