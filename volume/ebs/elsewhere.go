package ebs

import (
	"context"
	"fmt"
	"net/netip"
)

// Elsewhere returns, by slot, the private address of the other instance to which the slot's volume is attached. It asks
// EC2 on every call. If volumes of one slot are on several instances, the slot is left out, because it is unknown which
// of them runs the member.
func (p *Provider) Elsewhere(ctx context.Context) (map[string]netip.Addr, error) {
	volumes, err := p.seen.look(ctx)
	if err != nil {
		return nil, err
	}
	on := map[string]string{} // slot -> instance, "" for several
	ids := map[string]bool{}
	for _, v := range volumes {
		slot, _ := p.cfg.slot(v)
		for _, a := range v.Attachments {
			if slot == "" || a.Instance == "" || a.State != Attached {
				continue
			}
			if other, twice := on[slot]; twice && other != a.Instance {
				on[slot] = ""
				continue
			}
			on[slot], ids[a.Instance] = a.Instance, true
		}
	}
	delete(ids, p.self().Instance)
	instances, err := p.cloud.Instances(ctx, sortedKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("look for the instances that hold the other volumes: %w", err)
	}
	at := map[string]netip.Addr{}
	for slot, id := range on {
		for _, i := range instances {
			if i.ID == id && i.State == InstanceRunning && i.Address.IsValid() {
				at[slot] = i.Address
			}
		}
	}
	return at, nil
}
