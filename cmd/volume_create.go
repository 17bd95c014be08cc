package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

// createOptions are the flags of `holdfast volume create`.
type createOptions struct {
	zones  []string
	tags   []string
	like   ebs.NewVolume // all volumes, without what differs from slot to slot
	dryRun bool
}

func newVolumeCreateCommand() *cobra.Command {
	var o createOptions
	c := forEBS(&cobra.Command{
		Use:   "create",
		Short: "Create the EBS volumes of the cluster: one for each slot that has none",
	}, func(c *cobra.Command, cfg config.Config) error {
		return createVolumes(c.Context(), cfg, o, c.OutOrStdout())
	})
	fs := c.Flags()
	fs.StringSliceVar(&o.zones, "zones", nil, "availability `zones`, in the order of the slots (required)")
	fs.Int32Var(&o.like.SizeGiB, "size", 20, "`GiB` of each volume")
	fs.StringVar(&o.like.Type, "type", "gp3", "`type`: gp3, gp2, io2 or io1")
	fs.Int32Var(&o.like.IOPS, "iops", 0, "`number` of IO operations a second (default: that of the type)")
	fs.Int32Var(&o.like.Throughput, "throughput", 0, "`MiB` a second, gp3 only (default: that of the type)")
	fs.BoolVar(&o.like.Encrypted, "encrypted", true, "encrypt the volumes: etcd holds every secret of its cluster")
	fs.StringVar(&o.like.KMSKey, "kms-key", "", "KMS `key` to encrypt with: ID, ARN or alias (default: the "+
		"account's key for EBS)")
	fs.StringArrayVar(&o.tags, "tag", nil, "additional tag, `KEY=VALUE`; may be repeated")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be created; create nothing")
	return c
}

// createVolumes creates the missing volumes one after the other, and prints each.
func createVolumes(ctx context.Context, cfg config.Config, o createOptions, out io.Writer) error {
	if err := o.check(); err != nil {
		return usage(err)
	}
	cfg, err := node.WithSlots(ctx, cfg)
	if err != nil {
		return err
	}
	cloud, err := ebs.NewEC2(ctx, cfg.Volume.EBS, prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		return err
	}
	provider, err := node.OpenEBS(cfg, cloud, nil, zap.NewNop())
	if err != nil {
		return err
	}
	infos, err := provider.List(ctx, volume.Want{Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots})
	if err != nil {
		return err
	}
	for i, slot := range cfg.Cluster.Slots {
		zone := o.zones[i%len(o.zones)]
		has := func(v volume.Info) bool { return v.Slot == slot && !ebs.Dead(v.Cloud) }
		if at := slices.IndexFunc(infos, has); at >= 0 {
			fmt.Fprintf(out, "slot %s: has %s in %s already\n", slot, infos[at].Volume, infos[at].Zone)
			continue
		}
		v := o.like
		v.Zone, v.Token = zone, uuid.NewString()
		v.Tags = cfg.Volume.EBS.TagsOf(cfg.Cluster.Name, slot, cfg.Cluster.Slots, o.tags)
		if o.dryRun {
			fmt.Fprintf(out, "slot %s: would make %d GiB of %s in %s, %s, tags %s\n", slot, v.SizeGiB, v.Type, zone,
				encryption(v), tagsText(v.Tags))
			continue
		}
		id, err := cloud.Create(ctx, v)
		if err != nil {
			return fmt.Errorf("make the volume of slot %s: %w", slot, err)
		}
		fmt.Fprintf(out, "slot %s: made %s, %d GiB of %s in %s, %s\n", slot, id, v.SizeGiB, v.Type, zone, encryption(v))
	}
	return nil
}

func (o createOptions) check() error {
	var errs []error
	if len(o.zones) == 0 {
		errs = append(errs, errors.New("--zones: name at least one availability zone, better one for each slot"))
	}
	if o.like.KMSKey != "" && !o.like.Encrypted {
		errs = append(errs, errors.New("--kms-key: a volume that is not encrypted has no key; leave out --encrypted=false"))
	}
	if o.like.SizeGiB < 1 {
		errs = append(errs, fmt.Errorf("--size: must be at least 1 GiB, got %d", o.like.SizeGiB))
	}
	for _, t := range o.tags {
		if key, _, ok := strings.Cut(t, "="); !ok || key == "" {
			errs = append(errs, fmt.Errorf("--tag: must be KEY=VALUE, got %q", t))
		}
	}
	return errors.Join(errs...)
}

func encryption(v ebs.NewVolume) string {
	switch {
	case !v.Encrypted:
		return "NOT encrypted"
	case v.KMSKey == "":
		return "encrypted"
	}
	return "encrypted with " + v.KMSKey
}

func tagsText(tags map[string]string) string {
	var all []string
	for k, v := range tags {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
