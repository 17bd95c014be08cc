package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
)

// drainAgain is the pause before a refused drain is tried again, while --wait lasts.
const drainAgain = time.Second

func newDrainCommand() *cobra.Command {
	var how coordinator.DrainOptions
	var wait time.Duration
	c := asking(&cobra.Command{
		Use:   "drain",
		Short: "Stop this machine's member for maintenance, if no other is down and the others keep a quorum",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if err := atLeast("wait", 0, wait); err != nil {
			return err
		}
		return drain(c.Context(), client, how, wait, c.OutOrStdout(), c.ErrOrStderr())
	})
	c.Flags().BoolVar(&how.Force, "force", false, "do it even if that puts the cluster at risk, and state the risk")
	c.Flags().BoolVar(&how.Dry, "dry-run", false, "only say whether the member could be taken down now")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to keep trying while it is refused")
	return c
}

// drain asks the node to drain, and asks again for as long as wait while the node refuses.
func drain(ctx context.Context, client *control.Client, how coordinator.DrainOptions, wait time.Duration, out,
	progress io.Writer) error {
	var r coordinator.DrainReport
	err := whileRefused(ctx, wait, progress, func() (string, error) {
		r = coordinator.DrainReport{}
		err := client.Get(ctx, "POST /drain", &r, control.Args{"force": how.Force, "dry": how.Dry})
		if r.Drained {
			return "", err
		}
		return r.Risk, err
	})
	if err != nil {
		return err
	}
	return drainResult(r, how, out)
}

// whileRefused calls ask until it reports no risk, or until wait or ctx is over. It prints each risk that differs from
// the last one.
func whileRefused(ctx context.Context, wait time.Duration, progress io.Writer,
	ask func() (risk string, err error)) error {
	deadline, said := time.Now().Add(wait), ""
	for {
		risk, err := ask()
		if err != nil || risk == "" || !time.Now().Before(deadline) {
			return err
		}
		if risk != said {
			said = risk
			fmt.Fprintf(progress, "not yet: %s\n", risk)
		}
		select {
		case <-ctx.Done():
			return nil // the caller tells of the last refusal
		case <-time.After(drainAgain):
		}
	}
}

func drainResult(r coordinator.DrainReport, how coordinator.DrainOptions, out io.Writer) error {
	switch {
	case r.Drained && r.Risk == "":
		fmt.Fprintf(out, "drained: slot %s is down, and the cluster does without it; `holdfast undrain` starts it again\n",
			r.Slot)
	case r.Drained:
		fmt.Fprintf(out, "drained by force: slot %s is down, at this risk: %s; `holdfast undrain` starts it again\n", r.Slot,
			r.Risk)
	case r.Risk == "":
		fmt.Fprintf(out, "slot %s can be drained now\n", r.Slot)
	case how.Dry:
		return errors.New("it would be refused: " + r.Risk)
	default:
		return fmt.Errorf("refused: %s; nothing was changed; --wait 60s tries again for a while, --force ignores what is "+
			"at risk", r.Risk)
	}
	return nil
}

func newUndrainCommand() *cobra.Command {
	var dryRun bool
	c := asking(&cobra.Command{
		Use:   "undrain",
		Short: "Start this machine's member again after a drain",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if err := client.Do(c.Context(), "POST /undrain", control.Args{"dry": dryRun}); err != nil {
			return err
		}
		if dryRun {
			return sayDry(c, "the node is drained, and etcd would start again")
		}
		return say(c, "etcd starts again; the disruption lock is released when the member has caught up\n")
	})
	return addDryRun(c, &dryRun)
}
