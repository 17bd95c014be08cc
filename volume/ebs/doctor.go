package ebs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"holdfast/volume"
)

// Judgement is the result of one check of a [Doctor].
type Judgement int

const (
	Well     Judgement = iota // as it should be
	Doubtful                  // a node can work without it
	Missing                   // a node cannot work without it
)

// Doctor finds what keeps a machine from a cluster's volumes. It changes nothing.
type Doctor struct {
	Config  Config
	Cluster string
	Slots   []string
	Cloud   *EC2
	Volumes func(ctx context.Context) ([]volume.Info, error) // those that the tags select
	// Tell is called with the result of each check.
	Tell func(j Judgement, text string)
}

// Examine checks the identity, the volumes, the permissions and the programs.
func (d Doctor) Examine(ctx context.Context) {
	me, err := d.Cloud.Identity(ctx)
	switch {
	case err != nil:
		d.bad("identity: %v", err)
	case !me.inRegion():
		d.bad("identity: instance %s is in zone %s, which region %s does not have: EC2 is asked in another region than that "+
			"of this machine. Remove volume.ebs.region, volume.ebs.zone or AWS_REGION, whichever is wrong", me.Instance, me.Zone,
			me.Region)
	default:
		d.well("identity: instance %s in %s, region %s, account %s", me.Instance, me.Zone, me.Region, cmp.Or(me.Account, "-"))
	}
	d.permissions(ctx, me, d.volumes(ctx))
	d.machine()
}

func (d Doctor) well(format string, args ...any) { d.Tell(Well, fmt.Sprintf(format, args...)) }
func (d Doctor) warn(format string, args ...any) { d.Tell(Doubtful, fmt.Sprintf(format, args...)) }
func (d Doctor) bad(format string, args ...any)  { d.Tell(Missing, fmt.Sprintf(format, args...)) }

// volumes checks the volumes that the tags select.
func (d Doctor) volumes(ctx context.Context) []volume.Info {
	infos, err := d.Volumes(ctx)
	if err != nil {
		d.bad("volumes: %v", err)
		return nil
	}
	by := map[string][]string{}
	why := map[string]string{}
	for _, i := range infos {
		if Dead(i.Cloud) || !slices.Contains(d.Slots, i.Slot) {
			d.warn("volumes: %s is of no use: %s", i.Volume, i.Why)
			continue
		}
		by[i.Slot] = append(by[i.Slot], i.Volume)
		why[i.Volume] = i.Why
	}
	tags := strings.Join(d.Config.For(d.Cluster).Tags, ", ")
	for _, slot := range d.Slots {
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
			d.warn("volumes: %s (slot %s) is not encrypted", i.Volume, cmp.Or(i.Slot, "-"))
		}
	}
	return infos
}

// permissions checks the permissions for a volume of this zone, since a policy may depend on the volume's tags.
func (d Doctor) permissions(ctx context.Context, me Self, infos []volume.Info) {
	id := ""
	for _, i := range infos {
		if id == "" || i.Zone == me.Zone {
			id = i.Volume
		}
	}
	all := d.Cloud.Permissions(ctx, id, me.Instance)
	for _, p := range all {
		needed := p.Needed || p.Action == "ec2:DescribeInstances" && d.Config.Takeover == takeoverStopped
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
	// As in Permissions: only an endpoint that honours DryRun is asked about a change.
	if me.Instance != "" && slices.ContainsFunc(all, func(p Permission) bool { return p.Allowed }) {
		d.reach(ctx, me, infos)
	}
}

// reach checks whether this role could detach volumes that are not this node's: those of other nodes or other clusters.
// No node needs that, and a stolen role could stop a cluster with it.
func (d Doctor) reach(ctx context.Context, me Self, infos []volume.Info) {
	if d.Config.Takeover != takeoverStopped { // that mode needs to detach other nodes' volumes
		for _, i := range infos {
			if i.Instance != "" && i.Instance != me.Instance && instanceID.MatchString(i.Instance) {
				d.mayDetach(ctx, i.Volume, i.Instance, "another node's")
				break
			}
		}
	}
	some, err := d.Cloud.attached(ctx)
	if err != nil {
		d.warn("reach: whether the role can detach another cluster's volume was not asked: %v", err)
		return
	}
	cluster := d.Config.For(d.Cluster)
	for _, v := range some {
		if who := holder(v); !cluster.selects(v) && who != me.Instance && instanceID.MatchString(who) {
			d.mayDetach(ctx, v.ID, who, "not this cluster's")
			return
		}
	}
	d.warn("reach: no other instance has a volume that is not this cluster's, so whether the role could detach one was " +
		"not asked")
}

func (d Doctor) mayDetach(ctx context.Context, id, instance, whose string) {
	switch p := d.Cloud.mayDetach(ctx, id, instance); {
	case p.Allowed:
		d.warn("reach: the role may detach %s, %s, from %s: a stolen role could stop a cluster; `holdfast volume policy` "+
			"prints a policy that cannot", id, whose, instance)
	case p.Known:
		d.well("reach: the role cannot detach %s, %s, from %s", id, whose, instance)
	default:
		d.warn("reach: whether the role can detach %s, %s, from %s is %s", id, whose, instance, p.Detail)
	}
}

// machine checks what a claim needs of this machine.
func (d Doctor) machine() {
	v := d.Config
	programs := []string{"blkid", "blockdev", "mount", "umount", "fsck", "mkfs.ext4", "e2fsck", "resize2fs"}
	if v.Filesystem == xfs {
		programs = []string{"blkid", "blockdev", "mount", "umount", "mkfs.xfs", "xfs_repair", "xfs_growfs"}
	}
	machine := NewMachine(d.Config, d.Cluster, zap.NewNop())
	absent := slices.DeleteFunc(slices.Clone(programs), machine.has)
	if len(absent) > 0 {
		d.bad("programs: %s not found (Debian: e2fsprogs, xfsprogs, util-linux, mount)", strings.Join(absent, ", "))
	} else {
		d.well("programs: %s", strings.Join(programs, ", "))
	}
	d.ioTimeout(filepath.Join(v.DeviceRoot, "sys/module/nvme_core/parameters/io_timeout"))
	if os.Geteuid() != 0 {
		d.bad("user: holdfast must run as root to format and mount")
	}
	switch devices, err := machine.Devices(); {
	case err != nil:
		d.bad("devices: %v", err)
	case len(devices) == 0:
		d.bad("devices: no EBS volume shows as an NVMe device below %s: holdfast needs a "+
			"Nitro instance, whose root volume does", filepath.Join(v.DeviceRoot, "sys/block"))
	default:
		d.well("devices: %d EBS volumes show as NVMe devices", len(devices))
	}
}

// shortIO is the bound, in seconds, below which nvme_core.io_timeout is doubtful: earlier kernels allow at most 255.
const shortIO = 255

// ioTimeout checks how long the kernel waits for an NVMe device before it fails a request. AWS recommends the highest
// possible value, 4294967295; the kernel's default is 30 s ("NVMe I/O operation timeout for Amazon EBS volumes" in the
// EBS user guide). With 30 s a longer stall of EBS is an I/O error: the filesystem shuts down or becomes read-only, and
// the member fences itself although its volume is still there and might have come back.
//
// If a volume is detached under its member, the default would be better: a request that the device accepted and never
// answers fails after 30 s, and with the highest value it waits as long as the kernel keeps the device. That does not
// matter to the member: holdfast checks twice a second whether the device is there, and does not wait for requests.
func (d Doctor) ioTimeout(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		d.warn("I/O timeout: not known: %v", err)
		return
	}
	text := strings.TrimSpace(string(data))
	switch seconds, err := strconv.ParseUint(text, 10, 64); {
	case err != nil:
		d.warn("I/O timeout: %s has %q, which is not a number of seconds", file, text)
	case seconds < shortIO:
		d.warn("I/O timeout: nvme_core.io_timeout is %d s: a stall of EBS that lasts longer fails the I/O, and the member "+
			"then gives its volume up as lost. AWS recommends the maximum: put nvme_core.io_timeout=4294967295 on the "+
			"kernel's command line. A detached volume is noticed by its device either way", seconds)
	default:
		d.well("I/O timeout: nvme_core.io_timeout is %d s, so a stall of EBS is waited for", seconds)
	}
}
