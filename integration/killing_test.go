package integration_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/integration"
)

// killAt begins the environment variable that makes a process kill itself at a step.
const killAt = "HOLDFAST_TEST_KILL_AT="

// killed waits until a node is killed at a step.
func killed(t *testing.T, n *integration.Node, step string) {
	t.Helper()
	if code := n.Exit(time.Minute); code != -1 {
		t.Fatalf("%s ended with exit code %d, and was not killed at %s: %s", n.Name, code, step, n.Report())
	}
}

// killing has nodes, the victims, killed at each step of what they do. Each is killed at the first step that it
// reaches, and each time that it comes back, at a later one.
type killing struct {
	t      *testing.T
	steps  []string // in the order in which a node takes them
	next   map[*integration.Node]int
	deaths map[string]int // by step
	all    bool           // each step kills all victims, not only those that happen to reach it
}

func killAtEach(t *testing.T, steps ...string) *killing {
	return &killing{t: t, steps: steps, next: map[*integration.Node]int{}, deaths: map[string]int{}}
}

// start starts victims. After the last step, a victim is started for good.
func (k *killing) start(victims ...*integration.Node) {
	k.t.Helper()
	for _, n := range victims {
		step, at := "", k.next[n]
		k.next[n] = at // a new victim is noted
		if at < len(k.steps) {
			step = k.steps[at]
		}
		n.Start(killAt + step)
	}
}

// until starts victims that were killed, until each step has killed one of them, or all, and check returns nil.
func (k *killing) until(what string, check func() error) {
	k.t.Helper()
	integration.Until(k.t, 3*time.Minute, what, func() error {
		for n, at := range k.next {
			if n.Running() {
				continue
			}
			if at == len(k.steps) {
				k.t.Fatalf("%s ended after the last step: %s", n.Name, n.Report())
			}
			killed(k.t, n, k.steps[at])
			k.deaths[k.steps[at]]++
			k.next[n]++
			k.start(n)
		}
		err := check()
		for _, step := range k.steps {
			if dead := k.deaths[step]; dead == 0 || k.all && dead < len(k.next) {
				err = errors.Join(err, fmt.Errorf("%d were killed at %s", dead, step))
			}
		}
		return err
	})
}
