package ebs

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"holdfast/volume"
)

// verdict is what a claim of this process would do about a volume, and why.
type verdict struct {
	Volume
	slot  string
	claim *Tag // as the tag says; nil: there is none, or none that can be read
	fit   bool // it may be this node's, were it free
	take  bool
	why   string
	rank  uint64 // lower comes first
}

// choose returns the volume to take now. The error wraps ErrNoneFree and says why for each volume.
func (p *Provider) choose(ctx context.Context, want volume.Want, volumes []Volume) (Volume, error) {
	journal, err := p.journal()
	if err != nil {
		return Volume{}, err
	}
	judged := p.judgeAll(want, volumes)
	var why []string
	for i, v := range judged {
		if _, leaving := journal.Detaching[v.ID]; leaving {
			v.fit, v.take = false, false
			v.why = fmt.Sprintf("this machine has asked for its detachment, which may yet be executed; not used here for at most %s", zombie)
			judged[i] = v
		}
		if v.take {
			return v.Volume, nil
		}
		why = append(why, fmt.Sprintf("%s (slot %s): %s", v.ID, v.slot, v.why))
	}
	if p.cfg.Takeover == TakeoverStopped {
		if v, ok, err := p.seize(ctx, want, judged); ok || err != nil {
			return v, err
		}
	}
	text := strings.Join(why, "; ")
	if len(volumes) == 0 {
		text = fmt.Sprintf("no volume in region %s has the tags %s; `holdfast volume create` makes them", p.me.Region, strings.Join(p.cfg.Tags, ", "))
	}
	p.at(StateStandby, "", text)
	return Volume{}, none("%s", text)
}

// judgeAll judges every volume, the best first.
func (p *Provider) judgeAll(want volume.Want, volumes []Volume) []verdict {
	all := make([]verdict, 0, len(volumes))
	for _, v := range volumes {
		all = append(all, p.judge(want, v, volumes))
	}
	slices.SortStableFunc(all, func(a, b verdict) int {
		if a.rank != b.rank {
			if a.rank < b.rank {
				return -1
			}
			return 1
		}
		return compare(a.ID, b.ID)
	})
	return all
}

// judge says whether a volume is free for this node. What it reads may be stale; it costs a wasted attempt
// then, nothing else.
func (p *Provider) judge(want volume.Want, v Volume, all []Volume) verdict {
	slot, _ := parseSlot(v.Tags[p.cfg.SlotTag])
	j := verdict{Volume: v, slot: slot, rank: p.rank(v)}
	if t, err := ParseTag(v.Tags[p.cfg.ClaimTag]); err == nil {
		j.claim = &t
	}
	j.why = p.unfit(want, v)
	if j.fit = j.why == ""; j.fit {
		j.why = p.taken(v, j.claim)
	}
	if j.why == "" {
		j.why = p.rival(v, slot, all)
	}
	if why, avoided := want.Avoid[slot]; avoided && j.why == "" {
		j.why = why
	}
	if j.why == "" {
		j.take, j.why = true, "it is free"
	}
	return j
}

// unfit says why a volume can never be this node's as things are configured.
func (p *Provider) unfit(want volume.Want, v Volume) string {
	slot, members := parseSlot(v.Tags[p.cfg.SlotTag])
	affinity := v.Tags[TagInstance]
	switch {
	case slot == "":
		return fmt.Sprintf("it has no tag %s that names its slot", p.cfg.SlotTag)
	case members != nil && !slices.Equal(members, slices.Sorted(slices.Values(want.Slots))):
		return fmt.Sprintf("its tag %s names the slots %s, but cluster.slots is %s: make them the same",
			p.cfg.SlotTag, strings.Join(members, ","), strings.Join(want.Slots, ","))
	case !slices.Contains(want.Slots, slot) && !slices.Contains(want.Known, slot):
		return fmt.Sprintf("slot %s is not in cluster.slots (%s)", slot, strings.Join(want.Slots, ","))
	case v.Zone != p.me.Zone:
		return fmt.Sprintf("it is in zone %s, and this node in %s", v.Zone, p.me.Zone)
	case v.MultiAttach:
		return "it is a Multi-Attach volume, which two instances could write to: never used"
	case affinity != "" && affinity != p.me.Instance:
		return fmt.Sprintf("its tag %s reserves it for %s", TagInstance, affinity)
	}
	return ""
}

// taken says who has, or wants, a volume.
func (p *Provider) taken(v Volume, t *Tag) string {
	p.mu.Lock()
	seen, avoid, failed := p.sights[v.ID], p.avoid[v.ID], p.failed[v.ID]
	p.mu.Unlock()
	for _, a := range v.Attachments {
		where := a.State + " to " + a.Instance
		if a.State == Detaching {
			where = a.State + " from " + a.Instance
		}
		switch {
		case a.State == Detached:
		case a.Instance == "":
			return "something that AWS manages holds it"
		case a.Instance == p.me.Instance && a.State != Detaching:
			return fmt.Sprintf("EC2 says that it is %s to this instance, but its device is not here; it is detached when that has been so for %s", a.State, stuck)
		case t != nil && t.Instance == a.Instance:
			return fmt.Sprintf("%s of node %s", where, t.Node)
		default:
			return where
		}
	}
	// When, not in how long: a reason that changed every second would be logged every second.
	free := seen.since.Add(p.cfg.TakeoverAfter)
	switch {
	case v.State != VolumeAvailable:
		return "its state is " + v.State
	case time.Now().Before(avoid) && failed != "":
		return fmt.Sprintf("%s; next attempt at %s", failed, clock(avoid))
	case time.Now().Before(avoid):
		return fmt.Sprintf("an attempt came to nothing; next one at %s", clock(avoid))
	case t != nil && t.Instance == p.me.Instance, v.Tags[p.cfg.ClaimTag] == "":
		return ""
	case !time.Now().Before(free):
		return ""
	case t == nil:
		return fmt.Sprintf("its tag %s is not one of ours; free at %s if it stays as it is", p.cfg.ClaimTag, clock(free))
	}
	return fmt.Sprintf("claimed by node %s (%s); free at %s if that does not change", t.Node, t.Instance, clock(free))
}

// clock is a moment that is near, for people, as the log has it.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// rival says which other volume of the same slot comes first: one in use, and else one that was formatted.
func (p *Provider) rival(v Volume, slot string, all []Volume) string {
	for _, o := range all {
		other, _ := parseSlot(o.Tags[p.cfg.SlotTag])
		if o.ID == v.ID || other != slot {
			continue
		}
		used, formatted := len(o.Attachments) > 0, o.Tags[TagFormat] != ""
		mine := v.Tags[TagFormat] != ""
		switch {
		case used:
			return fmt.Sprintf("slot %s has another volume, %s, which is in use", slot, o.ID)
		case formatted && mine:
			return fmt.Sprintf("slot %s has two volumes with data, %s and %s: remove the tag %s from the one that is not to be used", slot, v.ID, o.ID, p.cfg.SlotTag)
		case formatted || !mine && o.ID < v.ID:
			return fmt.Sprintf("slot %s has another volume, %s, which comes first", slot, o.ID)
		}
	}
	return ""
}

// rank orders the volumes that could be taken: what is reserved for this instance, what it claimed before,
// and else by a hash that differs from node to node, so that nodes that start together spread.
func (p *Provider) rank(v Volume) uint64 {
	if v.Tags[TagInstance] == p.me.Instance {
		return 0
	}
	if t, err := ParseTag(v.Tags[p.cfg.ClaimTag]); err == nil && t.Instance == p.me.Instance {
		return 1
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.ID + "/" + p.me.Instance))
	return 2 + h.Sum64()>>1
}
