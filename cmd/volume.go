package cmd

import (
	"fmt"
	"net/http"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/volume"
)

func newVolumeCommand() *cobra.Command {
	c := &cobra.Command{Use: "volume", Short: "Show volumes, or adopt one whose content is not what it should be"}
	c.AddCommand(newVolumeListCommand(), newVolumeAdoptCommand())
	return c
}

func newVolumeListCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "Show every volume: slot, state, holder, what a node would do with it and why",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(output, "table", "json"); err != nil {
				return err
			}
			cfg, _, err := loadClient(c)
			if err != nil {
				return err
			}
			provider := volume.NewLocal(cfg.Volume.Local, cfg.Node.Name, zap.NewNop())
			infos, err := provider.List(c.Context(), volume.Want{Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots})
			if err != nil {
				return err
			}
			if output == "json" {
				return writeIndented(c.OutOrStdout(), infos)
			}
			t := newTable("SLOT", "VOLUME", "STATE", "HOLDER", "EPOCH", "DISK", "DECISION", "WHY")
			for _, i := range infos {
				t.AppendRow(table.Row{i.Slot, i.Volume, i.State, i.Holder, i.Epoch, i.Disk, i.Decision, i.Why})
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), t.Render())
			return err
		},
	}
	addClientFlags(c.Flags(), "volume.local.root")
	c.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return c
}

func newVolumeAdoptCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "adopt",
		Short: "Set the foreign content of the held volume aside, so that its slot starts anew",
		Long: "Set the content of the volume that the node on this machine holds aside (it is renamed, never deleted), so\n" +
			"that the slot starts anew: as a replacement in the cluster that exists, or blank. It is refused while etcd\n" +
			"runs on the volume, and when nothing is wrong with it.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, node, err := loadClient(c)
			if err != nil {
				return err
			}
			if err := node.get(c.Context(), http.MethodPost, "/adopt", &struct{}{}); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "adopted: what was on the volume lies in its directory aside/; `holdfast status` shows what the node does now")
			return nil
		},
	}
	addClientFlags(c.Flags())
	return c
}
