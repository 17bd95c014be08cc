package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what keeps this machine from the cluster's volumes: identity, permissions, programs, tags",
		Long: "Find out what keeps this machine from the cluster's volumes: whether the metadata service says who it is, what\n" +
			"its role may do (by DryRun: nothing is executed), which programs are missing, and what is wrong with the\n" +
			"volumes' tags. The exit code is 1 when something is missing that a node cannot do without.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, _, err := loadClient(c)
			if err != nil {
				return err
			}
			if cfg.Volume.Provider != volume.ProviderEBS {
				return fmt.Errorf("volume.provider is %s: this command is about EBS volumes", cfg.Volume.Provider)
			}
			return examine(c.Context(), cfg, c.OutOrStdout())
		},
	}
	addClientFlags(c.Flags(), providerFlags...)
	return c
}

// doctor writes a line for each thing that it looked at.
type doctor struct {
	out     io.Writer
	missing int // what a node cannot do without
}

func (d *doctor) well(format string, args ...any) {
	fmt.Fprintf(d.out, "[+] "+format+"\n", args...)
}

func (d *doctor) warn(format string, args ...any) {
	fmt.Fprintf(d.out, "[!] "+format+"\n", args...)
}

func (d *doctor) bad(format string, args ...any) {
	d.missing++
	fmt.Fprintf(d.out, "[-] "+format+"\n", args...)
}

// examine writes a line for each thing that the doctor looked at.
func examine(ctx context.Context, cfg config.Config, out io.Writer) error {
	cloud, err := node.OpenEC2(ctx, cfg, prometheus.NewRegistry(), zap.NewNop())
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
		Machine: node.OpenMachine(cfg, zap.NewNop()),
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

// volumes looks at what the tags select.
func (d *doctor) volumes(ctx context.Context, cfg config.Config, cloud *ebs.EC2) []volume.Info {
	provider, err := openEBS(cfg, cloud, nil, zap.NewNop())
	if err != nil {
		d.bad("volumes: %v", err)
		return nil
	}
	infos, err := provider.List(ctx, volume.Want{Cluster: cfg.Cluster.Name, Slots: cfg.Cluster.Slots})
	if err != nil {
		d.bad("volumes: %v", err)
		return nil
	}
	by := map[string][]string{}
	why := map[string]string{}
	for _, i := range infos {
		by[i.Slot] = append(by[i.Slot], i.Volume)
		why[i.Volume] = i.Why
		if !slices.Contains(cfg.Cluster.Slots, i.Slot) {
			d.warn("volumes: %s is of no use: %s", i.Volume, i.Why)
		}
	}
	tags := strings.Join(cfg.Volume.EBS.For(cfg.Cluster.Name).Tags, ", ")
	for _, slot := range cfg.Cluster.Slots {
		switch ids := by[slot]; len(ids) {
		case 0:
			d.bad("volumes: slot %s has none with the tags %s (`holdfast volume create` makes it)", slot, tags)
		case 1:
			d.well("volumes: slot %s has %s (for this node: %s)", slot, ids[0], why[ids[0]])
		default:
			d.warn("volumes: slot %s has %s: only one of them is ever used", slot, strings.Join(ids, " and "))
		}
	}
	for _, i := range infos {
		if !i.Encrypted {
			d.warn("volumes: %s (slot %s) is not encrypted", i.Volume, dash(i.Slot))
		}
	}
	return infos
}

// permissions asks about a volume of this zone, for a policy may be about the tags of the volume.
func (d *doctor) permissions(ctx context.Context, cfg config.Config, cloud *ebs.EC2, me ebs.Self, infos []volume.Info) {
	id := ""
	for _, i := range infos {
		if id == "" || i.Zone == me.Zone {
			id = i.Volume
		}
	}
	for _, p := range cloud.Permissions(ctx, id, me.Instance, cfg.Volume.EBS.ClaimTag, ebs.TagFormat, ebs.TagRecord) {
		needed := p.Needed || p.Action == "ec2:DescribeInstances" && cfg.Volume.EBS.Takeover == ebs.TakeoverStopped
		switch {
		case p.Allowed:
			d.well("permission %s (%s)", p.Action, p.Why)
		case needed && p.Known:
			d.bad("permission %s is missing (%s): %s", p.Action, p.Why, p.Detail)
		case p.Known:
			d.warn("permission %s is missing (%s)", p.Action, p.Why)
		case needed:
			d.warn("permission %s is %s (%s)", p.Action, p.Detail, p.Why)
		}
	}
}

// machine looks at what a claim needs of this machine.
func (d *doctor) machine(cfg config.Config) {
	v := cfg.Volume.EBS
	programs := []string{"blkid", "mount", "umount", "fsck", "mkfs.ext4", "e2fsck", "resize2fs"}
	if v.Filesystem == ebs.XFS {
		programs = []string{"blkid", "mount", "umount", "mkfs.xfs", "xfs_repair", "xfs_growfs"}
	}
	var absent []string
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			absent = append(absent, name)
		}
	}
	if len(absent) > 0 {
		d.bad("programs: %s not found (Debian: e2fsprogs, xfsprogs, util-linux, mount)", strings.Join(absent, ", "))
	} else {
		d.well("programs: %s", strings.Join(programs, ", "))
	}
	if os.Geteuid() != 0 {
		d.bad("user: holdfast must run as root to format and mount")
	}
	switch devices, err := openMachine(cfg, zap.NewNop()).Devices(); {
	case err != nil:
		d.bad("devices: %v", err)
	case len(devices) == 0:
		d.bad("devices: no EBS volume shows as an NVMe device below %s: holdfast needs a Nitro instance, whose root volume does", filepath.Join(v.DeviceRoot, "sys/block"))
	default:
		d.well("devices: %d EBS volumes show as NVMe devices", len(devices))
	}
}
