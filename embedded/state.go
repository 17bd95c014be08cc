package embedded

import (
	"encoding/json"
	"errors"
	"slices"

	"holdfast/embedded/plan"
)

// State is this member in the words of the plan, but for the certificate that it presents; ended says why etcd ended by
// itself. As Status it waits for nothing.
func (m *Member) State() (p plan.Member, ended error) {
	s, l := m.status(plan.KeyConsent, plan.KeySlots, plan.KeyLock, plan.KeyPaused)
	p = plan.Member{
		Running: s.Running, Ready: s.Ready, Leader: s.Leader, HasLead: s.LeaderID != 0,
		Confirmed: s.Confirmed, Stalled: s.Stalled, Learner: s.Learner, ID: s.MemberID,
	}
	if err := m.Err(); !s.Running && err != nil {
		if p.Removed = errors.Is(err, errRemoved); p.Removed {
			return p, nil
		}
		return p, err
	}
	if s.Running {
		p.Consent, p.Set = kept[plan.Consent](l, plan.KeyConsent), kept[plan.SlotSet](l, plan.KeySlots)
		p.Lock, p.Paused = kept[plan.Lock](l, plan.KeyLock), kept[plan.Pause](l, plan.KeyPaused)
		p.Cluster, p.Revision, p.Compacted, p.Snapshot = s.ClusterVersion, s.Revision, s.Compacted, !m.Quiet()
		p.Trusts, p.Stale, p.Space = s.Trusts, s.Stale, s.Space
	}
	p.Members = m.Members()
	for _, a := range s.Alarms {
		listed := slices.ContainsFunc(p.Members, func(i plan.MemberInfo) bool { return i.ID == a.MemberID })
		if a.MemberID != 0 && !listed {
			p.Marks = append(p.Marks, a.MemberID) // or one that was removed
		}
		p.Alarms = append(p.Alarms, a.Name)
		if a.Name == plan.Corrupt {
			p.Corrupt = append(p.Corrupt, a.MemberID)
		}
	}
	progress, leads := m.Progress()
	p.Term = leads
	for i := range p.Members {
		info := &p.Members[i]
		_, connected := m.Connected(info.ID)
		if connected {
			p.Near = append(p.Near, info.ID)
		}
		info.Connected = connected && s.Leader
		info.Matched, info.Receiving = progress[info.ID].Matched, progress[info.ID].Receiving
		if info.ID != p.ID { // of its own disk the others do not take its word
			info.Acked = info.Matched
		}
	}
	return p, nil
}

// kept decodes one of holdfast's own keys as it was read last. What was not read or is not understood counts as absent.
func kept[T any](l *life, name string) *T {
	k, _ := l.keys.Load(name)
	read, _ := k.(storedKey)
	v := new(T)
	if read.version == 0 || json.Unmarshal(read.value, v) != nil {
		return nil
	}
	return v
}
