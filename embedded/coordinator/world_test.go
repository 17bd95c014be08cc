package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"testing"

	"holdfast/embedded/plan"
)

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), lost: make(chan error, 1), store: func(context.Context) (string, error) { return "store", nil }}
}

func (w *world) note(list *[]string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, text)
}

func (w *world) Witnesses() []plan.Witness { return w.witnesses }

func (w *world) SetRecord(token string) { w.mu.Lock(); defer w.mu.Unlock(); w.borne = token }

func (w *world) Identity() Identity {
	return Identity{Slot: "a", Volume: "test:a", Disk: "disk-a", Epoch: 1}
}

func (w *world) Path() string { return w.dir }

func (w *world) Trouble() (mismatch, missing string) { return "", "" }

func (w *world) Watch(ctx context.Context) error {
	select {
	case err := <-w.lost:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (w *world) Publish([]byte) {}

func (w *world) Nodes(accepted bool) []Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	if accepted && w.forgets != nil {
		w.forgets()
		return nil
	}
	return w.nodes
}

func (w *world) Changed() <-chan struct{} { return nil }

func (w *world) Ask(_ context.Context, node string, question []byte) ([]byte, error) {
	w.note(&w.asked, node+" "+string(question))
	if w.asking != nil {
		w.asking()
	}
	if w.answer == nil {
		return nil, errors.New("it is gone")
	}
	return w.answer, nil
}

func (w *world) Twin() (netip.Addr, bool) { return w.twin, w.twin.IsValid() }

func (w *world) Twins() []string { return w.twins }

func (w *world) Set(map[string][]netip.Addr) {}

func (w *world) Check(context.Context) error { return nil }

func (w *world) Mark(_ context.Context, mark uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = append(w.marked, mark)
	w.member.Marks = w.marked
	return nil
}

func (w *world) MemberList(string) ([]plan.MemberInfo, error) {
	return []plan.MemberInfo{{ID: 1, Slot: "a"}}, nil
}

func (w *world) SetAside(dir, reason string) (string, error) {
	to := dir + "-" + reason
	if err := os.Rename(dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return to, nil
}

func (w *world) Revision() int64 { return 0 }

func (w *world) Room(string, int64) error { w.mu.Lock(); defer w.mu.Unlock(); return w.full }

func (w *world) Recover(_ context.Context, from, dir string, progress func(Progress)) (plan.LogEnd, error) {
	progress(Progress{Phase: "copying", Total: 1})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data.Log, os.WriteFile(w.Database(dir), []byte(from), 0o600)
}

func (w *world) Kill() { w.mu.Lock(); defer w.mu.Unlock(); w.killed = true }

func (w *world) State() (plan.Member, error) { w.mu.Lock(); defer w.mu.Unlock(); return w.member, nil }

func (w *world) AddLearner(_ context.Context, url string) (uint64, error) {
	w.note(&w.added, url)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		return 9, nil
	}
	w.member.Members = append(w.member.Members, plan.MemberInfo{ID: 9, Slot: "b", Learner: true})
	return 9, nil
}

func (w *world) Remove(_ context.Context, id uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, id)
	if w.deaf {
		return nil
	}
	w.member.Members = slices.DeleteFunc(slices.Clone(w.member.Members), func(m plan.MemberInfo) bool { return m.ID == id })
	return nil
}

type stores struct{ *world }

func (s stores) ID(ctx context.Context) (string, error) { return s.store(ctx) }

func (s stores) Known(context.Context) (plan.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knows, nil
}

func (s stores) Put(_ context.Context, r plan.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knows.Record = &r
	return nil
}

func (s stores) Dismiss(_ context.Context, command string) error {
	s.note(&s.dismissed, command)
	return nil
}

func (s stores) Propose(context.Context, plan.Restore) error { return nil }

func (s stores) Conclude(context.Context, plan.Record) error { return nil }

func (s stores) Abort(_ context.Context, r plan.Restore, _ plan.Abort) (*plan.Record, error) {
	s.note(&s.aborted, r.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.knows.Restore; p != nil && p.ID == r.ID {
		s.knows.Restore = nil
	}
	return nil, nil
}

func (s stores) Meet(context.Context, string, string) error { return nil }

func (s stores) Nonces() map[string]string { return nil }

func (s stores) Shine(context.Context, Beacon) error { s.note(&s.shone, "shone"); return nil }

func (s stores) Proposal(_ context.Context, generation uint64, attempt int) (*plan.Restore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proposed, nil
}
