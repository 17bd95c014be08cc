package gossip

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rotation replaces the key of all nodes: it is installed everywhere, then used everywhere, then the old ones are
// removed everywhere, and no step begins before every live node has confirmed the one before. So each node reads every
// other one at any time. What it knows it reads from the nodes: anyone who begins again, after a crash anywhere,
// continues from there.
type Rotation struct {
	Self string // this node
	Ring *Ring  // of this node
	// Nodes returns the nodes that are live, and those that are known and are not.
	Nodes func() (live, lost []string)
	// Ask has a node obey.
	Ask func(ctx context.Context, node string, o KeyOrder) (Keys, error)
	// Force continues without the nodes that are not live.
	Force bool
}

// RotationPlan is what a rotation would do.
type RotationPlan struct {
	Origin     string   `json:"origin"`
	Key        Key      `json:"key"`            // to which all go
	Unfinished bool     `json:"unfinished"`     // an earlier rotation to that key was begun, or its secret is new
	Nodes      []string `json:"nodes"`          // that take part
	Left       []string `json:"left,omitempty"` // that are not live and would keep the old key
	Old        []Key    `json:"old,omitempty"`  // to be removed

	order KeyOrder
}

// Plan asks every live node for its keys, and whether it could change them. An error says why it cannot be rotated now.
func (r Rotation) Plan(ctx context.Context) (RotationPlan, error) {
	if r.Ring == nil {
		return RotationPlan{}, errors.New("the gossip has no key to rotate: set gossip.key-file, or tls.mode to ca or auto")
	}
	live, lost := r.Nodes()
	have := map[string]Keys{}
	p := RotationPlan{Nodes: live, Left: lost, Origin: r.Ring.Keys().Origin}
	for _, node := range live {
		k, err := r.Ask(ctx, node, KeyOrder{Do: KeyCheck})
		if err != nil {
			return p, fmt.Errorf("nothing was changed: node %s: %w", node, err)
		}
		if k.Origin != p.Origin {
			return p, fmt.Errorf("nothing was changed: node %s has keys of another origin (%s) than node %s (%s): configure all alike first", node, k.Origin, r.Self, p.Origin)
		}
		have[node] = k
	}
	if err := r.choose(&p, have); err != nil {
		return p, fmt.Errorf("nothing was changed: %w", err)
	}
	for _, k := range union(have) {
		if k.Fingerprint != p.Key.Fingerprint {
			p.Old = append(p.Old, k)
		}
	}
	return p, nil
}

// choose finds the key to go to: a new one, or the newest that some node has and not all have alone.
func (r Rotation) choose(p *RotationPlan, have map[string]Keys) error {
	all := union(have)
	if len(all) == 1 && r.current(all[0]) {
		order, err := r.Ring.next()
		if err != nil {
			return err
		}
		p.Key, p.order = order.Key, order
		return nil
	}
	p.Unfinished = true
	p.Key = slices.MaxFunc(all, func(a, b Key) int { return r.newer(a, b, have) })
	order, ok := r.Ring.orderOf(p.Key.Fingerprint)
	if !ok {
		var owners []string
		for node, k := range have {
			if k.Has(p.Key.Fingerprint) {
				owners = append(owners, node)
			}
		}
		slices.Sort(owners)
		return fmt.Errorf("an earlier rotation to the key %s is unfinished, and only %s has it: run the command there",
			p.Key.Fingerprint, strings.Join(owners, ", "))
	}
	p.order = order
	return nil
}

// current reports whether a key that all have is of the secret that counts now.
func (r Rotation) current(k Key) bool {
	secrets := r.Ring.Keys().Secrets
	return len(secrets) == 0 || k.Secret == secrets[0]
}

// newer orders keys by their secret, serial and time; then the one that more nodes encrypt with is the newer one.
func (r Rotation) newer(a, b Key, have map[string]Keys) int {
	secrets := r.Ring.Keys().Secrets
	rank := func(k Key) int {
		if i := slices.Index(secrets, k.Secret); i >= 0 {
			return len(secrets) - i
		}
		return 0
	}
	users := func(k Key) (n int) {
		for _, h := range have {
			if h.Primary().Fingerprint == k.Fingerprint {
				n++
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Serial, b.Serial), a.Made.Compare(b.Made),
		cmp.Compare(users(a), users(b)), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// union returns every key that some node has.
func union(have map[string]Keys) []Key {
	all := map[string]Key{}
	for _, h := range have {
		for _, k := range h.Keys {
			all[k.Fingerprint] = k
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Key) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
}

// Permit refuses to leave nodes behind, unless that is forced.
func (r Rotation) Permit(p RotationPlan) error {
	if len(p.Left) > 0 && !r.Force {
		return fmt.Errorf("nothing was changed: not live, and left behind with the old key: %s; wait for them, or continue without them (--force)", strings.Join(p.Left, ", "))
	}
	return nil
}

// Run does what was planned. After an error some nodes are further than others: all of them still read each other, and
// another rotation continues from there.
func (r Rotation) Run(ctx context.Context, p RotationPlan) error {
	if err := r.Permit(p); err != nil {
		return err
	}
	install := p.order
	install.Do = KeyInstall
	remove := KeyOrder{Do: KeyRemove, Key: p.Key}
	for _, k := range p.Old {
		remove.Old = append(remove.Old, k.Fingerprint)
	}
	if err := r.everywhere(ctx, install, func(k Keys) bool { return k.Has(p.Key.Fingerprint) }); err != nil {
		return err
	}
	if err := r.everywhere(ctx, KeyOrder{Do: KeyUse, Key: p.Key},
		func(k Keys) bool { return k.Primary().Fingerprint == p.Key.Fingerprint }); err != nil {
		return err
	}
	return r.everywhere(ctx, remove,
		func(k Keys) bool { return k.Primary().Fingerprint == p.Key.Fingerprint && len(k.Keys) == 1 })
}

// everywhere has all live nodes obey, this one first, and those that come meanwhile as well. What a node said before
// counts no more when it must be asked again, for a node that was restarted from an old copy of its files is another
// one.
func (r Rotation) everywhere(ctx context.Context, o KeyOrder, done func(Keys) bool) error {
	confirmed := map[string]bool{}
	for {
		live, _ := r.Nodes()
		slices.SortFunc(live, func(a, b string) int {
			return cmp.Or(cmp.Compare(bit(a != r.Self), bit(b != r.Self)), cmp.Compare(a, b))
		})
		open := slices.DeleteFunc(live, func(node string) bool { return confirmed[node] })
		if len(open) == 0 {
			return nil
		}
		for _, node := range open {
			k, err := r.Ask(ctx, node, o)
			if err == nil && !done(k) {
				err = fmt.Errorf("its keys are %s now: is another rotation under way?", words(k))
			}
			if err != nil {
				return fmt.Errorf("%s key %s on node %s: %w; the nodes still read each other: run the command again", o.Do,
					o.Key.Fingerprint, node, err)
			}
			confirmed[node] = true
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func words(k Keys) string {
	var out []string
	for _, key := range k.Keys {
		out = append(out, key.Fingerprint)
	}
	return strings.Join(out, ", ")
}

// next makes a key that nobody has yet.
func (r *Ring) next() (KeyOrder, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := r.origin.(*derivedKeys); ok {
		secrets := d.secrets()
		if len(secrets) == 0 {
			return KeyOrder{}, errNoKey
		}
		serial := 0
		for _, k := range r.keys {
			if k.Secret == secretName(secrets[0]) {
				serial = max(serial, k.Serial+1)
			}
		}
		return KeyOrder{Key: derive(secrets[0], serial).Key}, nil
	}
	secret := NewSecret()
	k := newKey(secret)
	k.Made = time.Now().UTC().Truncate(time.Second)
	return KeyOrder{Key: k.Key, Secret: secret}, nil
}

// NewSecret returns a random key for a gossip.key-file.
func NewSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// orderOf returns what installs elsewhere a key that this node has or can derive.
func (r *Ring) orderOf(fingerprint string) (KeyOrder, bool) {
	for _, k := range append(r.ahead(), r.own()...) {
		if k.Fingerprint != fingerprint {
			continue
		}
		o := KeyOrder{Key: k.Key}
		if k.Secret == "" {
			o.Secret = k.secret
		}
		return o, true
	}
	return KeyOrder{}, false
}

func (r *Ring) own() []fullKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}
