package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/snapshot"
	"holdfast/volume"
)

// The coordinator knows the world by its own small interfaces, and the packages that do the work know
// nothing of each other. This file is where they meet.

type volumes struct {
	provider volume.Provider
	cluster  string
}

func (v volumes) Claim(ctx context.Context, slots []string, avoid map[string]string) (coordinator.Volume, error) {
	c, err := v.provider.Claim(ctx, volume.Want{Cluster: v.cluster, Slots: slots, Avoid: avoid})
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

func (h held) Identity() coordinator.Identity {
	id := h.Volume()
	return coordinator.Identity{Slot: id.Slot, Volume: id.Volume, Disk: id.Disk, Epoch: id.Epoch}
}

func (h held) Adopt(ctx context.Context) error {
	if a, ok := h.Claim.(volume.Adopter); ok {
		return a.Adopt(ctx)
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

func (m mesh) Nodes() []coordinator.Node {
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
	peerURL    string // pattern
	memberName string // pattern
	peerName   string
	handOver   time.Duration
}

func (m member) Inspect(dir string) (coordinator.Data, error) {
	d, err := embedded.Inspect(dir)
	return coordinator.Data{WAL: d.WAL, Unborn: d.WAL && d.LastIndex == 0, Member: d.MemberID, ClusterID: d.ClusterID}, err
}

func (m member) SetAside(dir, reason string) (string, error) { return embedded.SetAside(dir, reason) }

func (m member) FounderIDs(r plan.Record) (map[string]uint64, uint64, error) {
	return embedded.FounderIDs(r.Token(), r.Charter.Peers())
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
	return m.Member.Start(ctx, embedded.Spec{
		Slot: s.Slot, MemberName: m.memberName, DataDir: s.DataDir, Token: s.Token, Peers: s.Peers, Join: s.Join,
		PeerURL: s.PeerURL, PeerName: m.peerName, TrustWAL: s.TrustWAL,
	})
}

func (m member) Stop(ctx context.Context) error { return m.Member.Stop(ctx, m.handOver) }

func (m member) State() (plan.Member, error) {
	s := m.Status()
	p := plan.Member{Running: s.Running, Ready: s.Ready, Leader: s.Leader, HasLead: s.LeaderID != 0, Learner: s.Learner, ID: s.MemberID}
	if err := m.Err(); !s.Running && err != nil {
		if p.Removed = errors.Is(err, embedded.ErrRemoved); p.Removed {
			return p, nil
		}
		return p, err
	}
	for _, i := range m.Members() {
		_, connected := m.Connected(i.ID)
		p.Members = append(p.Members, plan.MemberInfo{
			ID: i.ID, Slot: m.slotOf(i), Learner: i.Learner, Started: i.Name != "", Connected: connected && s.Leader,
		})
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
	before, after, _ := strings.Cut(pattern, slotMark)
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	slot, ok := strings.CutSuffix(rest, after)
	return slot, ok && slot != ""
}

// records keeps the generations of a cluster in the backup store.
type records struct {
	store   snapshot.Store
	cluster string
	probed  bool // its conditional put was proven to be one
}

const maxRecord = 64 << 10 // bytes

// ID also proves, once, that the store can arbitrate: else it is no evidence of anything.
func (r *records) ID(ctx context.Context) (string, error) {
	if !r.probed {
		if err := snapshot.Probe(ctx, r.store); err != nil {
			return "", err
		}
		r.probed = true
	}
	return snapshot.StoreID(ctx, r.store)
}

func (r *records) name(generation uint64) string {
	return fmt.Sprintf("%s/control/record-%06d.json", r.cluster, generation)
}

func (r *records) Newest(ctx context.Context) (*plan.Record, error) {
	objects, err := r.store.List(ctx, r.cluster+"/control/record-")
	if err != nil {
		return nil, fmt.Errorf("list the cluster's records: %w", err)
	}
	if len(objects) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(objects, func(a, b snapshot.Object) int { return strings.Compare(a.Name, b.Name) })
	return r.read(ctx, newest.Name)
}

func (r *records) read(ctx context.Context, name string) (*plan.Record, error) {
	data, err := get(ctx, r.store, name, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's record %s: %w", name, err)
	}
	var record plan.Record
	if err := json.Unmarshal(data, &record); err != nil || record.ID == "" {
		return nil, fmt.Errorf("the cluster's record %s is damaged; restore it from another copy of the store: %w", name, err)
	}
	return &record, nil
}

func (r *records) Propose(ctx context.Context, record plan.Record) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	name := r.name(record.Generation)
	err = r.store.PutIfAbsent(ctx, name, append(data, '\n'))
	if !errors.Is(err, snapshot.ErrExists) {
		return err
	}
	other, err := r.read(ctx, name)
	if err != nil {
		return err
	}
	if other.ID != record.ID {
		return fmt.Errorf("%w: %s", coordinator.ErrConflict, other.Token())
	}
	return nil
}

func (r *records) MoveAside(ctx context.Context, record plan.Record) error {
	name := r.name(record.Generation)
	data, err := get(ctx, r.store, name, maxRecord)
	if err != nil {
		return err
	}
	aside := fmt.Sprintf("%s/control/aside-%06d-%s.json", r.cluster, record.Generation, record.ID)
	if err := r.store.PutIfAbsent(ctx, aside, data); err != nil && !errors.Is(err, snapshot.ErrExists) {
		return err
	}
	return r.store.Delete(ctx, name)
}
