package volume

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"holdfast/layout"
)

// sighting is what a look at a volume shows without locking it.
type sighting struct {
	slot   string
	locked bool
	tag    *claimTag // nil if there is none or it is torn
	err    error     // why the volume could not be examined
}

// judged is a sighting and the decision about it.
type judged struct {
	sighting
	take bool
	own  bool // the tag names this node: no other volume may be taken instead
	rank int  // lower comes first
	why  string
}

// rules are the circumstances for judging a sighting.
type rules struct {
	node  string
	scope string
	avoid map[string]string
	after time.Duration // how long a volume is kept for the node that left it
}

// judge decides whether a volume may be taken. idle is how long it has had no holder, as far as this process has seen;
// 0 at its first look.
func (r rules) judge(s sighting, idle time.Duration) judged {
	j := judged{sighting: s}
	named := s.tag != nil && s.tag.Phase != PhaseReleased
	j.own = named && s.tag.Owner == r.node
	avoid, avoided := r.avoid[s.slot]
	switch {
	case s.err != nil:
		j.why = s.err.Error()
	case s.locked && j.own:
		j.rank = -1 // before anything is taken
		j.why = fmt.Sprintf("held by another process named %s: stop that one, or give this one another node.name", r.node)
	case s.locked && named:
		j.why = fmt.Sprintf("held by %s", s.tag.Owner)
	case s.locked:
		j.why = "held by a process that has not said its name yet"
	case j.own && s.tag.Phase == PhaseHeld:
		j.take, j.rank, j.why = true, 0, "this node held it"
	case j.own:
		j.take, j.rank, j.why = true, 1, "this node was claiming it"
	case r.scope == ScopeHost:
		// The data on this host's own root is this host's, and candidates has already left out the slots to avoid.
		j.take, j.rank, j.why = true, 2, "it is this host's own"
	case avoided:
		j.why = avoid
	case !named:
		j.take, j.rank, j.why = true, 2, "nobody claims it"
	case idle >= r.after:
		j.take, j.rank, j.why = true, 3, fmt.Sprintf("%s left it %s ago", s.tag.Owner, idle.Round(time.Second))
	case idle == 0: // a command always looks for the first time: it cannot say when
		j.why = fmt.Sprintf("%s left it and may come back; free when a node has seen that for %s", s.tag.Owner, r.after)
	default: // a point in time: a reason that changes at each look would be logged at each
		j.why = fmt.Sprintf("%s left it and may come back; free at %s", s.tag.Owner,
			time.Now().Add(r.after-idle).Round(time.Second).UTC().Format("15:04:05 UTC"))
	}
	return j
}

// judgeAll looks at the volumes of the slots and judges them, the best first.
func (l *Local) judgeAll(root string, slots []string, want Want) []judged {
	r := rules{node: l.node, scope: l.cfg.Scope, avoid: want.Avoid, after: l.cfg.TakeoverAfter}
	lost, err := l.gone(root)
	var all []judged
	for _, slot := range slots {
		s := l.look(root, slot)
		if s.err == nil {
			s.err = err
		}
		j := r.judge(s, l.idle(s))
		if lost != nil && lost.Slot == slot && lost.blank && !j.own {
			j.rank, j.why = 1, j.why+"; "+lost.String() // so that an operator finds the node waiting at its disk's slot
		}
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b judged) int { return cmp.Or(a.rank-b.rank, strings.Compare(a.slot, b.slot)) })
	return all
}

func (l *Local) look(root, slot string) sighting {
	s := sighting{slot: slot}
	if s.err = l.mounts.check(l.cfg.Mount, l.place(root, slot).dir); s.err != nil {
		return s
	}
	if s.locked, s.err = isLocked(l.place(root, slot).lock); s.err != nil {
		return s
	}
	var torn error
	s.tag, torn, s.err = readTag(l.place(root, slot).tag)
	if torn != nil {
		l.log.Debug("ignored a torn claim", zap.String("slot", slot), zap.Error(torn))
	}
	return s
}

// candidates returns the slots that this node may claim at all, unordered.
func (l *Local) candidates(root string, want Want) ([]string, error) {
	wanted := slices.Concat(want.Slots, want.Known)
	if l.cfg.Slot != "" {
		if !slices.Contains(wanted, l.cfg.Slot) {
			return nil, noneFree("volume.local.slot is %s, but the slots are %s", l.cfg.Slot, strings.Join(wanted, ","))
		}
		wanted = []string{l.cfg.Slot}
	}
	if l.cfg.Scope == ScopeMachine {
		return wanted, nil
	}
	for _, slot := range wanted {
		// A volume that cannot be examined may hold data.
		if err := l.mounts.check(l.cfg.Mount, l.place(root, slot).dir); err != nil {
			return nil, err
		}
	}
	data, err := l.withData(root, wanted)
	if err != nil {
		return nil, err
	}
	if l.cfg.Slot != "" {
		data = slices.DeleteFunc(data, func(slot string) bool { return slot != l.cfg.Slot })
	}
	lost, err := l.gone(root)
	if err != nil {
		return nil, err
	}
	if lost != nil && lost.blank && len(data) == 0 && l.cfg.Slot == "" {
		// Stay with that slot: the other nodes must not take this host for one that never had a slot.
		if !slices.Contains(wanted, lost.Slot) {
			return nil, noneFree("%s, and the slots are %s", lost, strings.Join(wanted, ","))
		}
		return []string{lost.Slot}, nil
	}
	if why := l.givenUp(root, data, want.Avoid); why != "" {
		return nil, None{why}
	}
	return ofHost(root, data, wanted, want.Avoid)
}

// givenUp says why a host stands by although its root has a volume: the volume was released for any node, and must now
// be avoided.
func (l *Local) givenUp(root string, data []string, avoid map[string]string) string {
	if len(data) != 1 || avoid[data[0]] == "" {
		return ""
	}
	if s := l.look(root, data[0]); s.err == nil && s.tag != nil && s.tag.Phase == PhaseReleased {
		return fmt.Sprintf("%s was given up here, and is %s", data[0], avoid[data[0]])
	}
	return ""
}

func noneFree(format string, args ...any) error { return None{fmt.Sprintf(format, args...)} }

// ofHost returns the one slot of a host that has its root for itself: the slot with data, or else the lowest wanted
// slot that need not be avoided.
func ofHost(root string, data, wanted []string, avoid map[string]string) ([]string, error) {
	switch {
	case len(data) > 1:
		return nil, fmt.Errorf("%s holds data of the slots %s, but a host has one: set volume.local.slot, or "+
			"volume.local.scope to %s if nodes share it", root, strings.Join(data, ","), ScopeMachine)
	case len(data) == 1 && !slices.Contains(wanted, data[0]):
		return nil, noneFree("%s holds data of slot %s, but the slots are %s", root, data[0], strings.Join(wanted, ","))
	case len(data) == 1:
		return data, nil
	}
	var refused []string
	for _, slot := range slices.Sorted(slices.Values(wanted)) {
		why, avoided := avoid[slot]
		if !avoided {
			return []string{slot}, nil
		}
		refused = append(refused, slot+": "+why)
	}
	return nil, None{strings.Join(refused, "; ")}
}

// withData returns the slots below root that have an identity, wanted or not, and the wanted ones that have any
// content, ordered.
func (l *Local) withData(root string, wanted []string) ([]string, error) {
	if l.cfg.Directory != "" {
		n, err := dataIn(root)
		if has, e := layout.Exists(filepath.Join(root, IdentityName)); err == nil && (has || n > 0 || e != nil) {
			return []string{l.cfg.Slot}, cure(e)
		}
		return nil, cure(missing(err))
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cure(err)
	}
	var slots []string
	for _, e := range entries {
		slot := e.Name()
		if !label.MatchString(slot) {
			continue // holdfast's own files have a dot in their names
		}
		dir := filepath.Join(root, slot)
		has, err := layout.Exists(filepath.Join(dir, IdentityName))
		if err == nil && !has && slices.Contains(wanted, slot) {
			var n int
			n, err = dataIn(dir)
			has = n > 0
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, cure(err)
		}
		if has {
			slots = append(slots, slot)
		}
	}
	return slots, nil
}
