package coordinator

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The leader of a generation that began with a restored database deletes the keys of other generations, and nothing
// else.
func TestForgetKeysOfEarlierGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := restorable(t)
		w.data.ClusterID = 77
		mine := record("a").ID
		old := map[string][]byte{
			plan.KeySlots: encoded(t, plan.SlotSet{Record: "old", Serial: 3}), plan.KeyPaused: encoded(t, plan.Pause{By: "me", Record: "old"}),
			plan.KeyConsent: encoded(t, plan.Consent{Record: "old", Proposal: "p"}),
		}
		w.kept = map[string][]byte{}
		for name, value := range old {
			w.kept[name] = value
		}
		w.lockBy("b", "n2")
		w.set(func() { w.lock(encoded(t, plan.Lock{Slot: "b", Node: "n2", Record: "old"})) })
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(time.Minute)
		w.set(func() {
			for name, value := range w.kept {
				if value != nil {
					t.Errorf("%s is still %s", name, value)
				}
			}
			if w.locked != nil {
				t.Errorf("the lock is still %s", w.locked)
			}
			w.kept[plan.KeySlots], w.kept[plan.KeyPaused] = encoded(t, plan.SlotSet{Record: mine, Serial: 1}), encoded(t, plan.Pause{By: "you"})
			w.kept[plan.KeyConsent] = encoded(t, plan.Consent{Record: mine, Proposal: "q"})
			w.lock(encoded(t, plan.Lock{Slot: "b", Node: "n2", Record: mine}))
		})
		time.Sleep(time.Minute)
		w.set(func() {
			for name, value := range w.kept {
				if value == nil {
					t.Errorf("%s of this generation was deleted", name)
				}
			}
			if w.locked == nil {
				t.Error("the lock of this generation was deleted")
			}
		})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A lock that a restored database brought back does not prevent taking the lock, and the new lock names its generation.
func TestDisruptPastALockOfAnEarlierGeneration(t *testing.T) {
	w, _ := restorable(t)
	c := w.holding()
	w.set(func() { w.lock(encoded(t, plan.Lock{Slot: "b", Node: "n2", Record: "old"})) })
	if o := look(t, c); o.Member.Lock != nil {
		t.Errorf("the lock counts: %v", o.Member.Lock)
	}
	if _, err := c.turn.lock(t.Context(), "defrag", time.Minute); err != nil {
		t.Fatal(err)
	}
	if l := w.holder(); l.Node != "n1" || l.Record != record("a").ID {
		t.Errorf("the lock is %+v", l)
	}
	w.set(func() { w.lock(encoded(t, plan.Lock{Slot: "b", Node: "n2"})) }) // from a version that did not name it
	if _, err := c.turn.lock(t.Context(), "defrag", time.Minute); !errors.Is(err, plan.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// A pause that a restored database brought back does not count: an operator can pause, and cannot resume.
func TestPauseOfAnEarlierGeneration(t *testing.T) {
	w, _ := restorable(t)
	c := w.holding()
	w.set(func() {
		w.member = plan.Member{Running: true, Status: plan.Status{HasLead: true, Confirmed: true}, Paused: &plan.Pause{Record: "old"}}
		w.kept = map[string][]byte{plan.KeyPaused: encoded(t, plan.Pause{By: "me", Record: "old"})}
	})
	if o := look(t, c); o.Member.Paused != nil {
		t.Errorf("it is paused by %+v", o.Member.Paused)
	}
	if _, err := c.Resume(t.Context(), false); err == nil {
		t.Error("resumed what is not paused")
	}
	if err := c.Pause(t.Context(), plan.Pause{By: "you"}, false); err != nil {
		t.Fatal(err)
	}
	var p plan.Pause
	if err := json.Unmarshal(w.kept[plan.KeyPaused], &p); err != nil || p.By != "you" || p.Record != record("a").ID {
		t.Errorf("it is paused by %+v, %v", p, err)
	}
}

// In a later generation, only the pause says that another program may run a member. It stays until a node runs it again
// or it is removed.
func TestResumeOnTheWayBack(t *testing.T) {
	w, _ := restorable(t)
	c := w.holding()
	back := plan.Pause{By: "me", Return: true, Record: record("a").ID}
	w.set(func() {
		w.member = plan.Member{Running: true, ID: 1, Status: plan.Status{HasLead: true, Confirmed: true}, Paused: &back,
			Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}}}
		w.kept = map[string][]byte{plan.KeyPaused: encoded(t, back)}
	})
	for _, dry := range []bool{true, false} {
		if _, err := c.Resume(t.Context(), dry); err == nil || !strings.Contains(err.Error(), "members of slots b") {
			t.Errorf("dry %t: got %v", dry, err)
		}
	}
	w.set(func() { w.member.Members = w.member.Members[:1] })
	if _, err := c.Resume(t.Context(), false); err != nil {
		t.Error(err)
	}
}
