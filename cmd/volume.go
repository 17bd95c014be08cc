package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

func newVolumeCommand() *cobra.Command {
	c := &cobra.Command{Use: "volume",
		Short: "Show, create and release volumes, set their content aside, and diagnose them"}
	return group(c, newVolumeListCommand(), newVolumeCreateCommand(), newVolumeReleaseCommand(),
		newVolumeSetAsideCommand(), newVolumeRepairWALCommand(), newVolumeDoctorCommand(), newVolumePolicyCommand())
}

func newVolumeListCommand() *cobra.Command {
	var format output
	c := having(&cobra.Command{
		Use:   "list",
		Short: "Show every volume: slot, state, holder, and what this node would do with it and why",
	}, func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
		cfg, err := node.WithSlots(c.Context(), cfg)
		if err != nil {
			return err
		}
		provider, _, err := node.OpenProvider(c.Context(), cfg, prometheus.NewRegistry(), nil, zap.NewNop())
		if err != nil {
			return err
		}
		infos, err := provider.List(c.Context(), volume.Want{Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots})
		if err != nil {
			return err
		}
		if self, err := selfOf(c.Context(), client); err == nil {
			decided(self, infos)
		}
		return format.write(c, infos, show.Volumes(cfg.Volume.Provider, infos))
	})
	return format.add(c)
}

// decided replaces the decisions of this process by those of the running node. The node knows more, because it hears
// the other nodes, and it holds a volume that this process sees as another one's.
func decided(self health.NodeStatus, infos []volume.Info) {
	for i := range infos {
		take := infos[i].Decision == volume.DecisionTake
		switch v := self.Volume; {
		case v != nil && infos[i].Volume == v.ID && infos[i].Disk == v.Disk:
			infos[i].Decision, infos[i].Why = volume.DecisionKeep, "held by the node that runs here"
		case v != nil && take:
			infos[i].Decision, infos[i].Why = volume.DecisionWait, "the node that runs here holds slot "+v.Slot
		case self.State == health.Standby && take:
			infos[i].Decision, infos[i].Why = volume.DecisionWait, self.Why
		}
	}
}

func newVolumeReleaseCommand() *cobra.Command {
	var dryRun bool
	c := having(&cobra.Command{
		Use:   "release",
		Short: "Give up this machine's volume, so that another machine can take it",
	}, func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
		var released node.Released
		err := client.Get(c.Context(), "POST /release", &released, control.Args{"dry": dryRun})
		switch {
		case err == nil && dryRun:
			return sayDry(c, "would hand the leadership over, stop etcd and release %s (slot %s)", released.Volume,
				released.Slot)
		case err == nil:
			return say(c, "released %s (slot %s); this node claims no volume until it is restarted\n", released.Volume,
				released.Slot)
		case !alone(cfg, err), errors.Is(err, control.ErrHangs), errors.Is(err, fs.ErrPermission): // a node runs
			return err
		}
		return dropVolumes(c.Context(), cfg, dryRun, c.OutOrStdout())
	})
	return addDryRun(c, &dryRun)
}

// dropVolumes releases the volumes of this machine while no node runs.
func dropVolumes(ctx context.Context, cfg config.Config, dryRun bool, out io.Writer) error {
	_, provider, err := node.OpenProvider(ctx, cfg, prometheus.NewRegistry(), nil, zap.NewNop())
	if err != nil {
		return err
	}
	if provider == nil {
		fmt.Fprintln(out,
			"no node runs here, and a directory of this machine is held by nobody then: there is nothing to release")
		return nil
	}
	dropped, err := provider.Drop(ctx, dryRun)
	did := "released"
	if dryRun {
		did = "would unmount and detach"
	}
	for _, v := range dropped {
		fmt.Fprintf(out, "%s %s\n", did, v)
	}
	if err == nil && len(dropped) == 0 {
		fmt.Fprintln(out, "no volume of the cluster is attached to this machine")
	}
	return err
}

func newVolumeSetAsideCommand() *cobra.Command {
	var dryRun, yes bool
	c := asking(&cobra.Command{
		Use:   "set-aside",
		Short: "Set aside everything on this node's volume, so that its slot begins with a blank disk",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		var found node.Aside
		if err := client.Get(c.Context(), "POST /volume/set-aside", &found, control.Args{"dry": true}); err != nil {
			return err
		}
		fmt.Fprint(c.OutOrStdout(), show.Contents(found.Slot, found.Path, found.Contents))
		if dryRun {
			return sayDry(c, "would set everything on the volume aside, in %s/aside", found.Path)
		}
		if err := confirmUnless(yes, c, "Set everything on it aside, and begin with a blank disk?"); err != nil {
			return err
		}
		if err := client.Do(c.Context(), "POST /volume/set-aside"); err != nil {
			return err
		}
		return say(c, "%s; `holdfast status` shows what the node does now\n", show.SetAside(found.Path, found.Contents))
	})
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return addDryRun(c, &dryRun)
}

// forEBS gives a command that works on EBS volumes only what it does.
func forEBS(c *cobra.Command, run func(c *cobra.Command, cfg config.Config) error) *cobra.Command {
	return configured(c, func(c *cobra.Command, l *config.Loaded, _ []string) error {
		if p := l.Config.Volume.Provider; p != volume.ProviderEBS {
			return fmt.Errorf("volume.provider is %s: this command is about EBS volumes", p)
		}
		return run(c, l.Config)
	})
}

func newVolumePolicyCommand() *cobra.Command {
	partition := ebs.DefaultPartition
	c := forEBS(&cobra.Command{
		Use:   "policy",
		Short: "Print the IAM policy that the nodes' role needs for its volumes",
	}, func(c *cobra.Command, cfg config.Config) error {
		text, err := cfg.Volume.EBS.Policy(cfg.Cluster.Name, partition)
		if err != nil {
			return usage(fmt.Errorf("--%w", err))
		}
		return say(c, "%s", text)
	})
	c.Flags().StringVar(&partition, "partition", partition, "AWS `partition` of the account: aws, aws-cn, aws-us-gov, …")
	return c
}
