package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

func newVolumeDoctorCommand() *cobra.Command {
	return forEBS(&cobra.Command{
		Use:   "doctor",
		Short: "Find out why this machine cannot use the cluster's volumes: identity, permissions, programs, tags",
	}, func(c *cobra.Command, cfg config.Config) error {
		return examine(c.Context(), cfg, c.OutOrStdout())
	})
}

// examine prints a line for each check, and returns exit code 1 if something that a node needs is missing.
func examine(ctx context.Context, cfg config.Config, out io.Writer) error {
	cloud, err := ebs.NewEC2(ctx, cfg.Volume.EBS, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		return err
	}
	missing, marks := 0, map[ebs.Judgement]string{ebs.Well: "[+]", ebs.Doubtful: "[!]", ebs.Missing: "[-]"}
	tell := func(j ebs.Judgement, text string) {
		if j == ebs.Missing {
			missing++
		}
		fmt.Fprintf(out, "%s %s\n", marks[j], text)
	}
	tagged := cfg.Cluster.TagSlots
	if cfg, err = node.WithSlots(ctx, cfg); err != nil {
		tell(ebs.Missing, err.Error())
	} else if tagged {
		tell(ebs.Well, "slots: "+strings.Join(cfg.Cluster.Slots, ", ")+", by the volumes' tags")
	}
	ebs.Doctor{
		Config: cfg.Volume.EBS, Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots, Cloud: cloud,
		Volumes: func(ctx context.Context) ([]volume.Info, error) {
			provider, err := node.OpenEBS(cfg, cloud, nil, zap.NewNop())
			if err != nil {
				return nil, err
			}
			return provider.List(ctx, volume.Want{Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots})
		},
		Tell: tell,
	}.Examine(ctx)
	if missing > 0 {
		fmt.Fprintf(out, "missing: %d of these\n", missing)
		return exitCode(1)
	}
	fmt.Fprintln(out, "nothing is missing")
	return nil
}
