package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// The kernel keeps the connections of a suspended process, and so does raft. But its member answers nothing: the
// cluster is not healthy, and no other member is taken down.
func TestSuspendedMember(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	leader := c.Leader()
	var others []*integration.Node
	for _, n := range c.Nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	frozen, other := others[0], others[1]
	frozen.Pause()
	for _, n := range []*integration.Node{leader, other} {
		c.Until(patience, "the cluster is degraded", func() error {
			s, err := n.Status()
			if err == nil && s.Health != health.Degraded {
				return fmt.Errorf("%s says %s: %s", n.Name, s.Health, strings.Join(s.Reasons(), "; "))
			}
			return err
		})
	}
	refused(t, other, "not connected", "drain")
	if o := frozen.Command("status"); o.Code != 3 || !strings.Contains(o.Out+o.Err, "suspended") {
		t.Errorf("status of the suspended node: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := frozen.Command("doctor"); o.Code != 2 || !strings.Contains(o.Out, "[-] "+string(health.NodeSilent)) || !strings.Contains(o.Out, "suspended") {
		t.Errorf("doctor on its machine: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if o := frozen.Command("volume", "release"); o.Code != 1 || o.Out != "" || !strings.Contains(o.Err, "suspended") {
		t.Errorf("release of its volume: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	frozen.Continue()
	c.Healthy()
}
