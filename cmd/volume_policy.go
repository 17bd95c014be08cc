package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/volume/ebs"
)

func newVolumePolicyCommand() *cobra.Command {
	partition := ebs.DefaultPartition
	c := &cobra.Command{
		Use:   "policy",
		Short: "Print the IAM policy that the nodes' role needs for its volumes",
		Long: "Print the IAM policy that the nodes' role needs for its volumes, for this configuration: its tags and\n" +
			"takeover. It is the minimum that works. With it, a role can attach and detach only volumes of the\n" +
			"cluster, and only at the instance that asks. The command does not ask AWS. `holdfast volume doctor`, on\n" +
			"a node, then shows whether the role may do what it must, and nothing that it must not.",
		Example: "  holdfast volume policy --config /etc/holdfast.yaml > policy.json\n" +
			"  holdfast volume policy --config /etc/holdfast.yaml --partition aws-us-gov",
		Args: cobra.NoArgs,
		RunE: forEBS(func(c *cobra.Command, cfg config.Config) error {
			text, err := cfg.Volume.EBS.Policy(cfg.Cluster.Name, partition)
			if err != nil {
				return usage(fmt.Errorf("--%w", err))
			}
			return say(c, "%s", text)
		}),
	}
	addClientFlags(c.Flags(), providerFlags...)
	c.Flags().StringVar(&partition, "partition", partition, "AWS `partition` of the account: aws, aws-cn, aws-us-gov, …")
	return c
}
