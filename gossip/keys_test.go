package gossip

import (
	"os"
	"testing"
	"time"

	"holdfast/durable"
)

// A key file that an operator changes is taken over, and one that cannot be read is not.
func TestKeyFileIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	pa, pb, po := keyFile(t, 'x'), keyFile(t, 'x'), keyFile(t, 'x')
	with := func(path string, seeds ...*member) func(*Config) {
		return func(c *Config) { c.KeyFile = path; seeded(seeds...)(c) }
	}
	a := start(t, "main", node("a"), with(pa))
	b := start(t, "main", node("b"), with(pb, a))
	await(t, "b sees a", patience, sees(b, "a"))
	o := observe(t, "main", "o", nil, with(po, a))
	await(t, "the observer sees b", patience, sees(o, "b"))
	put := func(path string, keys ...byte) {
		text, err := os.ReadFile(keyFile(t, keys...))
		if err == nil {
			err = durable.WriteFile(path, text)
		}
		must(t, err)
	}
	follows := func(m *member) func() bool {
		logged := m.logs.FilterMessage("gossip keys changed").Len()
		return func() bool { return m.logs.FilterMessage("gossip keys changed").Len() > logged }
	}
	for _, step := range [][]byte{{'x', 'y'}, {'y', 'x'}, {'y'}} {
		follow := []func() bool{follows(a), follows(b)}
		put(pa, step...)
		put(pb, step...)
		put(po, step...)
		for _, followed := range follow {
			await(t, "they follow", 10*time.Second, followed)
		}
	}
	b.Publish([]byte("under y"))
	await(t, "a hears b", patience, says(a, "b", "under y"))
	await(t, "the observer connects again under y", 15*time.Second, func() bool { return o.logs.FilterMessage("joined gossip").Len() > 1 })
	await(t, "the observer hears b", patience, says(o, "b", "under y"))
	if problems := o.Problems(); len(problems) > 0 {
		t.Errorf("the observer complains: %v", problems)
	}
	must(t, os.Chmod(pa, 0o644))
	await(t, "a complains", 10*time.Second, complains(a, "chmod 600"))
	b.Publish([]byte("still under y"))
	await(t, "a hears b with the earlier keys", patience, says(a, "b", "still under y"))
	must(t, os.Chmod(pa, 0o600))
	await(t, "a is content", 10*time.Second, func() bool { return !complains(a, "chmod 600")() })
	if n := a.logs.FilterMessage("lost node").Len() + b.logs.FilterMessage("lost node").Len() + o.logs.FilterMessage("lost node").Len(); n != 0 {
		t.Errorf("nodes were lost %d times", n)
	}
}
