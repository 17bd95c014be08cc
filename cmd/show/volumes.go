package show

import (
	"cmp"
	"fmt"
	"strings"

	"holdfast/embedded/health"
	"holdfast/volume"
)

// Volumes returns a table of the volumes of a provider.
func Volumes(provider string, infos []volume.Info) string {
	if provider != volume.ProviderEBS {
		t := Table("SLOT", "VOLUME", "STATE", "HOLDER", "EPOCH", "DISK", "DECISION", "WHY")
		for _, i := range infos {
			t.AppendRow([]any{i.Slot, i.Volume, i.State, i.Holder, i.Epoch, i.Disk, i.Decision, i.Why})
		}
		return t.Render() + "\n"
	}
	t := Table("SLOT", "VOLUME", "ZONE", "SIZE", "TYPE", "ENCRYPTED", "STATE", "INSTANCE", "HOLDER", "EPOCH", "FORMAT",
		"DECISION", "WHY")
	for _, i := range infos {
		encrypted := "no"
		if i.Encrypted {
			encrypted = "yes"
		}
		t.AppendRow([]any{i.Slot, i.Volume, i.Zone, health.Bytes(i.Size), i.Type, encrypted, i.Cloud,
			cmp.Or(i.Instance, "-"), cmp.Or(i.Holder, "-"), i.Epoch, cmp.Or(i.Format, "-"), i.Decision, i.Why})
	}
	return t.Render() + "\n"
}

// maxNames is how many files of a volume are named.
const maxNames = 10

// Contents returns a text about the content of a slot's volume, with a warning if it is the data of etcd-manager.
func Contents(slot, path string, c volume.Contents) string {
	holds := "nothing"
	if n := len(c.Names); n > 0 {
		holds = strings.Join(c.Names[:min(n, maxNames)], ", ")
		if n > maxNames {
			holds += fmt.Sprintf(" and %d more", n-maxNames)
		}
	}
	text := fmt.Sprintf("the volume of slot %s, %s, holds %s\n", slot, path, holds)
	if len(c.EtcdManager) > 0 {
		text += fmt.Sprintf("WARNING: that is the data of a cluster of etcd-manager (%s); set aside, it serves nobody, "+
			"and the slot begins blank.\nTo keep that cluster, restore its newest backup (docs/restore.md) instead of this.\n",
			strings.Join(c.EtcdManager, ", "))
	}
	return text
}

// SetAside says what became of the contents of a volume that were set aside.
func SetAside(path string, c volume.Contents) string {
	if len(c.Names) == 0 {
		return "the slot begins with a blank disk"
	}
	return fmt.Sprintf("set aside: what was on the volume lies in %s/aside", path)
}
