package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/volume"
)

// The coordinator knows the world by its own small interfaces, and the packages that do the work know
// nothing of each other. This file is where they meet.

// volumes are the volumes of this cluster as the coordinator knows them.
type volumes struct {
	provider volume.Provider
	cluster  string
}

func (v volumes) Claim(ctx context.Context, slots, known []string,
	avoid map[string]string) (coordinator.Volume, error) {
	c, err := v.provider.Claim(ctx, volume.Want{Cluster: v.cluster, Slots: slots, Known: known, Avoid: avoid})
	if none, ok := errors.AsType[volume.None](err); ok {
		return nil, fmt.Errorf("%w: %s", coordinator.ErrNoVolume, none.Why)
	}
	if err != nil {
		return nil, err
	}
	return held{c}, nil
}

// Witnesses are what a cloud's volumes bear; a directory bears nothing that others see.
func (v volumes) Witnesses() []plan.Witness {
	b, ok := v.provider.(volume.RecordLister)
	if !ok {
		return nil
	}
	borne := b.Records()
	var all []plan.Witness
	for _, id := range slices.Sorted(maps.Keys(borne)) {
		all = append(all, plan.Witness{Volume: id, Token: borne[id]})
	}
	return all
}

// held is a volume that this node holds.
type held struct{ volume.Claim }

func (h held) SetRecord(token string) {
	if b, ok := h.Claim.(volume.RecordSetter); ok {
		b.SetRecord(token)
	}
}

func (h held) Trouble() (mismatch, missing string) {
	mismatch = h.Mismatch()
	if m, ok := h.Claim.(volume.MissingReporter); ok {
		missing = m.Missing()
	}
	return mismatch, missing
}

func (h held) Identity() coordinator.Identity {
	id := h.Volume()
	return coordinator.Identity{Slot: id.Slot, Volume: id.Volume, Disk: id.Disk, Epoch: id.Epoch}
}

func (h held) SetAllAside(ctx context.Context) error {
	if a, ok := h.Claim.(volume.SetAsider); ok {
		return a.SetAside(ctx)
	}
	return errors.New("the content of this kind of volume cannot be set aside")
}

func (h held) Release(ctx context.Context, how coordinator.Release) error {
	if how != coordinator.Yield {
		return h.Claim.Release(ctx, how == coordinator.Drop)
	}
	if y, ok := h.Claim.(volume.Yielder); ok {
		return y.Yield(ctx)
	}
	return errors.New("this kind of volume cannot be yielded")
}

// mesh is the gossip as the coordinator knows it.
type mesh struct{ *gossip.Mesh }

func (m mesh) Nodes(accepted bool) []coordinator.Node {
	m.Settle(accepted)
	nodes := m.Mesh.Nodes()
	out := make([]coordinator.Node, len(nodes))
	for i, n := range nodes {
		out[i] = coordinator.Node{Name: n.Node, Address: n.Address, Live: n.Live, State: n.State,
			Stamp: [2]uint64{n.Boot, n.Seq}}
	}
	return out
}

// etcd is the member and its disk as the coordinator knows them, with the certificates that they need.
type etcd struct {
	*embedded.Member
	embedded.Disk
	certificates *pki.Keeper
}

// Start has the slot's certificates issued first.
func (e etcd) Start(ctx context.Context, s plan.Spec) error {
	if err := e.certificates.Prepare(ctx, s.Slot); err != nil {
		return err
	}
	return e.Member.Start(ctx, s)
}

// State also tells which authority has issued the certificate that the member presents.
func (e etcd) State() (plan.Member, error) {
	p, ended := e.Member.State()
	if p.Running {
		p.Issuer = e.certificates.Issuer()
	}
	return p, ended
}

// Recover replays the log in a process of its own, which it may end.
func (e etcd) Recover(ctx context.Context, from, dir string, progress func(coordinator.Progress)) (plan.LogEnd, error) {
	err := e.Copy(ctx, from, e.Database(dir), func(done, total int64) {
		progress(coordinator.Progress{Phase: "copying", Done: done, Total: total})
	})
	if err != nil {
		return plan.LogEnd{}, err
	}
	progress(coordinator.Progress{Phase: "replaying the log"})
	var end plan.LogEnd
	err = runChild(ctx, replayCommand, dir, replayOrder{From: from, Dir: dir}, &end)
	return end, err
}

// upkeepOf is the section as decisions know it.
func upkeepOf(c config.Upkeep) plan.Upkeep {
	return plan.Upkeep{FreePercent: c.DefragFreePercent, FreeBytes: c.DefragFreeBytes, FullPercent: c.FullPercent, Cure: c.CureNoSpace}
}
