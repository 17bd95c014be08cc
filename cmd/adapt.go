package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

type volumes struct {
	provider volume.Provider
	cluster  string
}

func (v volumes) Claim(ctx context.Context, slots, known []string, avoid map[string]string) (coordinator.Volume, error) {
	c, err := v.provider.Claim(ctx, volume.Want{Cluster: v.cluster, Slots: slots, Known: known, Avoid: avoid})
	if errors.Is(err, volume.ErrNoneFree) {
		_, why, _ := strings.Cut(err.Error(), volume.ErrNoneFree.Error()+": ")
		return nil, fmt.Errorf("%w: %s", coordinator.ErrNoVolume, why)
	}
	if err != nil {
		return nil, err
	}
	return held{c}, nil
}

// Witnesses are what a cloud's volumes bear; a directory bears nothing that others see.
func (v volumes) Witnesses() []plan.Witness {
	b, ok := v.provider.(interface{ Borne() map[string]string })
	if !ok {
		return nil
	}
	borne := b.Borne()
	var all []plan.Witness
	for _, id := range slices.Sorted(maps.Keys(borne)) {
		all = append(all, plan.Witness{Volume: id, Token: borne[id]})
	}
	return all
}

type held struct{ volume.Claim }

func (h held) Bear(token string) {
	if b, ok := h.Claim.(interface{ Bear(string) }); ok {
		b.Bear(token)
	}
}

func (h held) Missing() string {
	if m, ok := h.Claim.(interface{ Missing() string }); ok {
		return m.Missing()
	}
	return ""
}

func (h held) Identity() coordinator.Identity {
	id := h.Volume()
	return coordinator.Identity{Slot: id.Slot, Volume: id.Volume, Disk: id.Disk, Epoch: id.Epoch}
}

func (h held) Adopt(ctx context.Context) error {
	if a, ok := h.Claim.(volume.SetAsider); ok {
		return a.SetAside(ctx)
	}
	return errors.New("this kind of volume cannot be adopted")
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

type mesh struct{ *gossip.Mesh }

func (m mesh) Nodes(accepted bool) []coordinator.Node {
	m.Settle(accepted)
	nodes := m.Mesh.Nodes()
	out := make([]coordinator.Node, len(nodes))
	for i, n := range nodes {
		out[i] = coordinator.Node{Name: n.Node, Address: n.Address, Live: n.Live, State: n.State, Stamp: [2]uint64{n.Boot, n.Seq}}
	}
	return out
}

// member is the etcd member with what the coordinator wants to know of it.
type member struct {
	*embedded.Member
	certificates *pki.Keeper
	peerURL      string // pattern
	memberName   string // pattern
	peerName     string
	handOver     time.Duration
}

func (m member) Inspect(dir string) (coordinator.Data, error) {
	d, err := embedded.Inspect(dir)
	return coordinator.Data{WAL: d.WAL, Unborn: d.WAL && d.LastIndex == 0, Member: d.MemberID, ClusterID: d.ClusterID,
		Log: plan.LogEnd{Term: d.LastTerm, Index: d.LastIndex}, Term: d.Term}, err
}

func (m member) SetAside(dir, reason string) (string, error) { return embedded.SetAside(dir, reason) }

func (m member) Aside(volume string) ([]coordinator.Aside, error) {
	all, err := embedded.Asides(volume)
	return asides(all), err
}

func (m member) Reclaim(volume string, before time.Time) ([]coordinator.Aside, error) {
	all, err := m.Aside(volume)
	if err != nil {
		return nil, err
	}
	gone, err := embedded.Reclaim(filepath.Join(volume, coordinator.EtcdDir), before, coordinator.Reclaimable)
	return slices.DeleteFunc(all, func(a coordinator.Aside) bool { return !slices.Contains(gone, a.Path) }), err
}

func asides(all []embedded.Aside) []coordinator.Aside {
	out := make([]coordinator.Aside, len(all))
	for i, a := range all {
		out[i] = coordinator.Aside{Path: a.Path, Reason: a.Reason, Since: a.Since, Bytes: a.Bytes, Kept: !slices.Contains(coordinator.Reclaimable, a.Reason)}
	}
	return out
}

func (m member) Room(volume string, bytes int64) error { return embedded.Room(volume, bytes) }
func (m member) Database(dir string) string            { return embedded.DatabasePath(dir) }
func (m member) Revision() int64                       { return m.Status().Revision }

func (m member) FounderIDs(r plan.Record) (map[string]uint64, uint64, error) {
	return embedded.FounderIDs(r.Token(), r.Peers())
}

func (m member) Promote(ctx context.Context, id uint64) error {
	err := m.Member.Promote(ctx, id)
	if errors.Is(err, embedded.ErrNotReady) {
		return coordinator.ErrNotReady
	}
	return notYet(err)
}

func (m member) AddLearner(ctx context.Context, peerURL string) (uint64, error) {
	id, err := m.Member.AddLearner(ctx, peerURL)
	return id, notYet(err)
}

func (m member) HandOver(ctx context.Context) error { return notYet(m.TransferLeadership(ctx)) }

// notYet says in the coordinator's words that etcd wants to be asked again later.
func notYet(err error) error {
	if errors.Is(err, embedded.ErrUnhealthy) {
		return fmt.Errorf("%w: %w", coordinator.ErrUnhealthy, err)
	}
	return err
}

func (m member) Remove(ctx context.Context, id uint64) error {
	if err := m.Member.Remove(ctx, id); !errors.Is(err, embedded.ErrNotFound) {
		return notYet(err)
	}
	return nil // it is gone, which is what was wanted
}

func (m member) Start(ctx context.Context, s coordinator.Spec) error {
	if err := m.certificates.Prepare(ctx, s.Slot); err != nil {
		return err
	}
	return fitness(m.Member.Start(ctx, m.spec(s)))
}

func (m member) Fit(dir string) error { return fitness(embedded.Fit(dir)) }

// fitness says in the coordinator's words that etcd would panic on the data.
func fitness(err error) error {
	if errors.Is(err, embedded.ErrOldWAL) || errors.Is(err, embedded.ErrNewer) {
		return fmt.Errorf("%w: %w", coordinator.ErrUnfit, err)
	}
	return err
}

func (m member) Rebuild(ctx context.Context, dir string, s coordinator.Spec, bump int64) error {
	return embedded.Rebuild(ctx, dir, m.spec(s), bump)
}

func (m member) Recover(ctx context.Context, from, dir string, progress func(coordinator.Progress)) (plan.LogEnd, error) {
	err := m.Copy(ctx, from, m.Database(dir), func(done, total int64) {
		progress(coordinator.Progress{Phase: "copying", Done: done, Total: total})
	})
	if err != nil {
		return plan.LogEnd{}, err
	}
	progress(coordinator.Progress{Phase: "replaying the log"})
	var end embedded.LogEnd
	err = runChild(ctx, replayCommand, dir, replayOrder{From: from, Dir: dir}, &end)
	return plan.LogEnd(end), err
}

func (m member) MemberList(dir string) ([]plan.MemberInfo, error) {
	list, err := embedded.MemberList(dir)
	var out []plan.MemberInfo
	for _, i := range list {
		out = append(out, m.info(i))
	}
	return out, err
}

// info is what the plan wants to know of a member.
func (m member) info(i embedded.MemberInfo) plan.MemberInfo {
	return plan.MemberInfo{ID: i.ID, Slot: m.slotOf(i), Learner: i.Learner, Started: i.Name != ""}
}

func (m member) PutKey(ctx context.Context, name string, value []byte, version int64) error {
	err := m.Member.PutKey(ctx, name, value, version)
	switch {
	case errors.Is(err, embedded.ErrChanged):
		return fmt.Errorf("%w: %w", coordinator.ErrConflict, err)
	case errors.Is(err, embedded.ErrReadOnly):
		return fmt.Errorf("%w: %w", coordinator.ErrReadOnly, err)
	}
	return err
}

func (m member) TryLock(ctx context.Context, value, old []byte, ttl time.Duration) ([]byte, error) {
	present, err := m.Member.TryLock(ctx, value, old, ttl)
	if errors.Is(err, embedded.ErrHeld) {
		return present, fmt.Errorf("%w: %w", coordinator.ErrConflict, err)
	}
	return nil, err
}

func (m member) RefreshLock(ctx context.Context, value []byte) error {
	err := m.Member.RefreshLock(ctx, value)
	if errors.Is(err, embedded.ErrChanged) {
		return fmt.Errorf("%w: %w", coordinator.ErrConflict, err)
	}
	return err
}

// kept decodes one of holdfast's own keys. What cannot be read or understood is none.
func kept[T any](m member, name string) *T {
	data, version, err := m.Key(name)
	v := new(T)
	if err != nil || version == 0 || json.Unmarshal(data, v) != nil {
		return nil
	}
	return v
}

func (m member) spec(s coordinator.Spec) embedded.Spec {
	return embedded.Spec{
		Slot: s.Slot, MemberName: m.memberName, DataDir: s.DataDir, Token: s.Token, Peers: s.Peers, Join: s.Join,
		PeerURL: s.PeerURL, PeerName: m.peerName, TrustWAL: s.TrustWAL,
	}
}

func (m member) Stop(ctx context.Context) error { return m.Member.Stop(ctx, m.handOver) }

func (m member) Leave(ctx context.Context, handOver time.Duration) error {
	return m.Member.Stop(ctx, handOver)
}

func (m member) State() (plan.Member, error) {
	s := m.Status()
	p := plan.Member{Running: s.Running, Ready: s.Ready, Leader: s.Leader, HasLead: s.LeaderID != 0, Confirmed: s.Confirmed, Stalled: s.Stalled, Learner: s.Learner, ID: s.MemberID}
	if err := m.Err(); !s.Running && err != nil {
		if p.Removed = errors.Is(err, embedded.ErrRemoved); p.Removed {
			return p, nil
		}
		return p, err
	}
	if s.Running {
		p.Consent = kept[plan.Consent](m, coordinator.KeyConsent)
		p.Set, p.Lock, p.Paused = kept[plan.SlotSet](m, coordinator.KeySlots), kept[plan.Lock](m, coordinator.KeyLock), kept[plan.Pause](m, coordinator.KeyPaused)
		p.Cluster, p.Revision, p.Compacted, p.Snapshot = s.ClusterVersion, s.Revision, s.Compacted, !m.Quiet()
		p.Issuer = m.certificates.Issuer()
		p.Trusts, p.Stale = s.Trusts, s.Stale
		p.Space = plan.Space{Size: s.Database.Size, InUse: s.Database.InUse, Quota: s.Database.Quota}
	}
	members := m.Members()
	for _, a := range s.Alarms {
		if a.MemberID != 0 && !slices.ContainsFunc(members, func(i embedded.MemberInfo) bool { return i.ID == a.MemberID }) {
			p.Marks = append(p.Marks, a.MemberID) // or one that was removed
		}
		p.Alarms = append(p.Alarms, a.Name)
		if a.Name == plan.Corrupt {
			p.Corrupt = append(p.Corrupt, a.MemberID)
		}
	}
	progress, leads := m.Progress()
	p.Term = leads
	for _, i := range members {
		_, connected := m.Connected(i.ID)
		if connected {
			p.Near = append(p.Near, i.ID)
		}
		info := m.info(i)
		info.Connected = connected && s.Leader
		info.Matched, info.Receiving = progress[i.ID].Matched, progress[i.ID].Receiving
		if i.ID != p.ID { // of its own disk the others do not take its word
			info.Acked = info.Matched
		}
		p.Members = append(p.Members, info)
	}
	return p, nil
}

// slotOf reads the slot from the peer URL, which a member has before it has a name. Only a member that was
// not made by us has another URL; then its name may tell.
func (m member) slotOf(i embedded.MemberInfo) string {
	for _, u := range i.PeerURLs {
		if slot, ok := cutSlot(m.peerURL, u); ok {
			return slot
		}
	}
	if slot, ok := cutSlot(m.memberName, i.Name); ok {
		return slot
	}
	return i.Name
}

// cutSlot returns what stands in text in the place of the pattern's {slot}.
func cutSlot(pattern, text string) (string, bool) {
	before, after, _ := strings.Cut(pattern, config.SlotMark)
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	slot, ok := strings.CutSuffix(rest, after)
	return slot, ok && slot != ""
}

// upkeepOf is the section as decisions know it.
func upkeepOf(c config.Upkeep) plan.Upkeep {
	return plan.Upkeep{FreePercent: c.DefragFreePercent, FreeBytes: c.DefragFreeBytes, FullPercent: c.FullPercent, Cure: c.CureNoSpace}
}
