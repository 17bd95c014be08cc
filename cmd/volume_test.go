package cmd

import (
	"testing"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/volume"
)

// The command looks at the volumes without having heard the other nodes. What the node here has decided stands.
func TestVolumeListHeedsTheNode(t *testing.T) {
	seen := func() []volume.Info {
		return []volume.Info{{Slot: "a", Decision: volume.DecisionTake, Why: "it is this host's own"},
			{Slot: "b", Volume: "local:b", Disk: "d1", Decision: volume.DecisionWait, Why: "held by n1"}}
	}
	infos := seen()
	decided(health.NodeStatus{State: health.Standby, Why: "standing by: a is held by n2"}, infos)
	if infos[0].Decision != volume.DecisionWait || infos[0].Why != "standing by: a is held by n2" || infos[1] != seen()[1] {
		t.Errorf("beside a standby: got %+v", infos)
	}
	infos = seen()
	decided(health.NodeStatus{State: "leader", Volume: &plan.Volume{ID: "local:b", Slot: "b", Disk: "d1"}}, infos)
	held := volume.Info{Slot: "a", Decision: volume.DecisionWait, Why: "the node that runs here holds slot b"}
	if infos[0] != held || infos[1].Decision != volume.DecisionKeep {
		t.Errorf("beside a leader: got %+v", infos)
	}
	// A volume that does not match has no disk that is known, and neither have those that are not this machine's.
	infos = []volume.Info{{Volume: "vol-1", Why: "attached to i-1"}, {Volume: "vol-2", Why: "attached to i-2"}}
	decided(health.NodeStatus{State: "waiting", Volume: &plan.Volume{ID: "vol-2"}}, infos)
	if infos[0].Decision == volume.DecisionKeep || infos[1].Decision != volume.DecisionKeep {
		t.Errorf("beside a node whose volume does not match: got %+v", infos)
	}
}
