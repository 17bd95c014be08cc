package ebs

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Slots implements [volume.SlotLister] for volumes whose slot tag lists all members, as kops writes it ("a/a,b,c").
func (p *Provider) Slots(ctx context.Context) ([]string, error) {
	volumes, err := p.seen.look(ctx)
	if err != nil {
		return nil, err
	}
	return p.cfg.slots(volumes)
}

// slots returns the slots that the tags of all these volumes name.
func (c Config) slots(volumes []Volume) ([]string, error) {
	if len(volumes) == 0 {
		return nil, fmt.Errorf("no volume has the tags %s, so the slots of the cluster are not known: set cluster.slots, or "+
			"create the volumes", strings.Join(c.Tags, ", "))
	}
	by := map[string][]string{} // volume IDs by the text of their tags
	var slots []string
	whole := true
	for _, v := range volumes {
		slot, all := c.slot(v)
		says := fmt.Sprintf("%q", v.Tags[c.SlotTag])
		if slices.Contains(all, slot) {
			slots, says = all, strings.Join(all, ",")
		} else {
			whole = false
		}
		by[says] = append(by[says], v.ID)
	}
	if len(by) == 1 && whole {
		return slots, nil
	}
	var found []string
	for _, says := range sortedKeys(by) {
		found = append(found, fmt.Sprintf("%s has %s", strings.Join(by[says], ", "), says))
	}
	return nil, fmt.Errorf("the volumes do not agree about the slots of their cluster: in the tag %s, %s: make the tags "+
		"name the volume's slot and the same members, as a/a,b,c, or set cluster.slots", c.SlotTag, strings.Join(found, "; "))
}
