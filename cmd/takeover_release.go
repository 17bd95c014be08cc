package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

// releaseFlags are the flags of `holdfast takeover release`.
type releaseFlags struct {
	to            string
	force, dryRun bool
	wait          time.Duration
}

func newTakeoverReleaseCommand() *cobra.Command {
	var f releaseFlags
	var format output
	c := asking(&cobra.Command{
		Use:   "release [--to-etcd VERSION]",
		Short: "Give this machine's member back to etcd-manager or to plain etcd, with its data in place",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if err := atLeast("wait", 0, f.wait); err != nil {
			return err
		}
		r, err := f.release(c.Context(), client, c.ErrOrStderr())
		if err != nil {
			return err
		}
		refusal := f.refusal(r)
		if err := format.write(c, r, show.Release(r, f.dryRun && refusal == nil)); err != nil {
			return err
		}
		return refusal
	})
	fs := c.Flags()
	fs.StringVar(&f.to, "to-etcd", "",
		"`version` of the etcd that is to run here, as 3.6.12, for which etcd-manager must have the binary (default that "+
			"in its file state)")
	fs.BoolVar(&f.force, "force", false, "do it even if that puts the cluster at risk, and state the risk")
	addDryRun(c, &f.dryRun)
	fs.DurationVar(&f.wait, "wait", 2*time.Minute, "how long to try again while another member is down, or no majority "+
		"would be left")
	return format.add(c)
}

// release asks the node to release its member, and asks again for as long as f.wait while the member cannot go down.
func (f releaseFlags) release(ctx context.Context, client *control.Client, progress io.Writer) (health.Release, error) {
	args := control.Args{"to": f.to, "by": operator(), "force": f.force, "dry": f.dryRun}
	var r health.Release
	err := whileRefused(ctx, f.wait, progress, func() (string, error) {
		r = health.Release{}
		err := client.Get(ctx, "POST /takeover/release", &r, args)
		if r.Released || len(r.Why) > 0 || f.dryRun {
			return "", err
		}
		return r.Risk, err
	})
	return r, err
}

// refusal returns an error if the member was not released or, with --dry-run, would not be.
func (f releaseFlags) refusal(r health.Release) error {
	switch {
	case len(r.Why) > 0:
		return fmt.Errorf("not released, and nothing was changed:\n  - %s", strings.Join(r.Why, "\n  - "))
	case r.Released || f.dryRun && (r.Risk == "" || f.force):
		return nil
	}
	return fmt.Errorf("not released, for the member cannot go down now: %s; --wait tries again for longer, --force "+
		"ignores what is at risk", r.Risk)
}
