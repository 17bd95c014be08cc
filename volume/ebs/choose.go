package ebs

import (
	"cmp"
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
	claim *claimTag // from the tag; nil if there is none that can be parsed
	fit   bool      // this node could have it if it were free
	take  bool
	why   string
	rank  uint64 // lower comes first
}

// choose is step 2: it returns the volume to take now. The error wraps ErrNoneFree and has a reason for each volume.
func (a *claimAttempt) choose(ctx context.Context) (Volume, error) {
	journal, err := a.requests.journal()
	if err != nil {
		return Volume{}, err
	}
	judged := a.judge(a.want, a.volumes).all()
	var why []string
	for i, v := range judged {
		if _, leaving := journal.Detaching[v.ID]; leaving {
			v.fit, v.take = false, false
			v.why = fmt.Sprintf("this machine has requested its detach, which may still be executed; not used here for "+
				"at most %s", zombie)
			judged[i] = v
		}
		if v.take {
			return v.Volume, nil
		}
		why = append(why, fmt.Sprintf("%s (slot %s): %s", v.ID, v.slot, v.why))
	}
	if a.cfg.Takeover == takeoverStopped {
		if v, ok, err := a.seize(ctx, judged); ok || err != nil {
			return v, err
		}
	}
	if len(a.volumes) == 0 {
		why = []string{fmt.Sprintf("no volume in region %s has the tags %s; `holdfast volume create` makes them", a.me.Region,
			strings.Join(a.cfg.Tags, ", "))}
	}
	text := strings.Join(slices.Concat(a.untagged, why), "; ")
	a.status.at(stateStandby, "", text)
	return Volume{}, none("%s", text)
}

// rules decide which volumes this node may have at all, by its configuration.
type rules struct {
	cfg  Config
	me   Self
	want volume.Want
}

// judge decides which of the cluster's volumes are free for this node. Its information may be stale; the worst
// consequence is a wasted attempt.
type judge struct {
	rules
	volumes  []Volume
	seen     *scanner
	setbacks *setbacks
}

func (p *Provider) rules(want volume.Want) rules { return rules{cfg: p.cfg, me: p.self(), want: want} }

func (p *Provider) judge(want volume.Want, volumes []Volume) judge {
	return judge{rules: p.rules(want), volumes: volumes, seen: p.seen, setbacks: p.setbacks}
}

// all judges every volume, the best first.
func (j judge) all() []verdict {
	all := make([]verdict, 0, len(j.volumes))
	for _, v := range j.volumes {
		all = append(all, j.of(v))
	}
	slices.SortStableFunc(all, func(a, b verdict) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.ID, b.ID))
	})
	return all
}

// of judges a single volume.
func (j judge) of(v Volume) verdict {
	slot, _ := j.cfg.slot(v)
	d := verdict{Volume: v, slot: slot, rank: j.rank(v)}
	if t, err := j.cfg.claim(v); err == nil {
		d.claim = &t
	}
	d.why = j.unfit(v)
	if d.fit = d.why == ""; d.fit {
		d.why = j.taken(v, d.claim)
	}
	if d.why == "" {
		d.why = j.rival(v, slot)
	}
	if why, avoided := j.want.Avoid[slot]; avoided && d.why == "" {
		d.why = why
	}
	if d.why == "" {
		d.take, d.why = true, "it is free"
	}
	return d
}

// unfit returns why this node can never have a volume with its configuration, or "".
func (r rules) unfit(v Volume) string {
	slot, members := r.cfg.slot(v)
	affinity := v.Tags[TagInstance]
	switch {
	case slot == "":
		return fmt.Sprintf("it has no tag %s that names its slot", r.cfg.SlotTag)
	case members != nil && !slices.Equal(members, slices.Sorted(slices.Values(r.want.Slots))):
		return fmt.Sprintf("its tag %s names the slots %s, but cluster.slots is %s: make them the same",
			r.cfg.SlotTag, strings.Join(members, ","), strings.Join(r.want.Slots, ","))
	case !slices.Contains(r.want.Slots, slot) && !slices.Contains(r.want.Known, slot):
		return fmt.Sprintf("slot %s is not in cluster.slots (%s)", slot, strings.Join(r.want.Slots, ","))
	case v.Zone != r.me.Zone:
		return fmt.Sprintf("it is in zone %s, and this node in %s", v.Zone, r.me.Zone)
	case v.MultiAttach:
		return "it is a Multi-Attach volume, which two instances could write to: never used"
	case affinity != "" && affinity != r.me.Instance:
		return fmt.Sprintf("its tag %s reserves it for %s", TagInstance, affinity)
	}
	return ""
}

// taken returns who has or wants a volume, or "" if it is free.
func (j judge) taken(v Volume, t *claimTag) string {
	seen := j.seen.unchanged(v.ID)
	avoid, failed := j.setbacks.of(v.ID)
	for _, a := range v.Attachments {
		where := a.State + " to " + a.Instance
		if a.State == Detaching {
			where = a.State + " from " + a.Instance
		}
		switch {
		case a.State == Detached:
		case a.Instance == "":
			return "something that AWS manages holds it"
		case a.Instance == j.me.Instance && a.State != Detaching:
			return fmt.Sprintf("EC2 says that it is %s to this instance, but its device is not here; it is detached if that "+
				"lasts for %s", a.State, stuck)
		case t != nil && t.Instance == a.Instance:
			return fmt.Sprintf("%s of node %s", where, t.Node)
		default:
			return where
		}
	}
	// A point in time, not the remaining duration: a reason that changes every second would be logged every second.
	free := seen.Add(j.cfg.TakeoverAfter)
	switch {
	case v.State != VolumeAvailable:
		return "its state is " + v.State
	case time.Now().Before(avoid) && failed != "":
		return fmt.Sprintf("%s; next attempt at %s", failed, clock(avoid))
	case time.Now().Before(avoid):
		return fmt.Sprintf("an attempt failed; next attempt at %s", clock(avoid))
	case t != nil && t.Instance == j.me.Instance, v.Tags[TagClaim] == "":
		return ""
	case !time.Now().Before(free):
		return ""
	case t == nil:
		return fmt.Sprintf("its tag %s is not one of ours; free at %s if it stays as it is", TagClaim, clock(free))
	}
	return fmt.Sprintf("claimed by node %s (%s); free at %s if that does not change", t.Node, t.Instance, clock(free))
}

// clock formats a time of the near future or past for people, as the log does.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// rival returns which other volume of the same slot comes first, or "". First comes one in use, then one that was
// formatted.
func (j judge) rival(v Volume, slot string) string {
	for _, o := range j.volumes {
		other, _ := j.cfg.slot(o)
		if o.ID == v.ID || other != slot || Dead(o.State) {
			continue
		}
		used, formatted := len(o.Attachments) > 0, o.Tags[TagFormat] != ""
		mine := v.Tags[TagFormat] != ""
		switch {
		case used:
			return fmt.Sprintf("slot %s has another volume, %s, which is in use", slot, o.ID)
		case formatted && mine:
			return fmt.Sprintf("slot %s has two volumes with data, %s and %s: remove the tag %s from the one that is not to be "+
				"used", slot, v.ID, o.ID, j.cfg.SlotTag)
		case formatted || !mine && o.ID < v.ID:
			return fmt.Sprintf("slot %s has another volume, %s in zone %s, which comes first: remove the tag %s from that one "+
				"if it is not to be used", slot, o.ID, o.Zone, j.cfg.SlotTag)
		}
	}
	return ""
}

// rank orders the volumes that could be taken: those reserved for this instance, then those that it claimed before,
// then by a hash that differs from node to node, so that nodes that start together spread over the volumes.
func (r rules) rank(v Volume) uint64 {
	if v.Tags[TagInstance] == r.me.Instance {
		return 0
	}
	if t, err := r.cfg.claim(v); err == nil && t.Instance == r.me.Instance {
		return 1
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.ID + "/" + r.me.Instance))
	return 2 + h.Sum64()>>1
}

// closer reports whether a is adopted before b: first the volume that was held last, then one with this instance's
// claim, then one that was formatted, then the first in the list, which has the lower ID.
func (r rules) closer(a, b Volume, held *Holding) bool {
	rank := func(v Volume) int {
		t, err := r.cfg.claim(v)
		switch {
		case held != nil && held.Volume == v.ID:
			return 0
		case err == nil && t.Instance == r.me.Instance && t.Phase == volume.PhaseHeld:
			return 1
		case err == nil && t.Instance == r.me.Instance:
			return 2
		case v.Tags[TagFormat] != "":
			return 3
		}
		return 4
	}
	return rank(a) < rank(b)
}

// here returns the volume as one whose device is on this machine. What EC2 says of it may be stale; the device is not.
func (r rules) here(v Volume) Volume {
	v.Zone = r.me.Zone
	return v
}
