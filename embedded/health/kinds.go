package health

import "slices"

// Code identifies a kind of finding. It never changes, so that alerts and scripts can rely on it.
type Code string

// areas are the parts of a cluster that are examined, in the order of `holdfast doctor`.
var areas = []string{
	areaQuorum, areaNodes, areaSlots, areaMembers, areaAlarms, areaGenerations, areaVersions, areaClocks, areaDisks,
	areaDatabases,
	areaCertificates, areaBackups, areaGossip, areaVolumes, areaConfig, areaOperator, areaKubernetes,
}

// alone are the areas that can be examined when no node runs.
var alone = []string{areaCertificates, areaBackups}

const (
	areaQuorum       = "quorum"
	areaNodes        = "nodes"
	areaSlots        = "slots"
	areaMembers      = "members"
	areaAlarms       = "alarms"
	areaGenerations  = "generations"
	areaVersions     = "versions"
	areaClocks       = "clocks"
	areaDisks        = "disks"
	areaDatabases    = "databases"
	areaCertificates = "certificates"
	areaBackups      = "backups"
	areaGossip       = "gossip"
	areaVolumes      = "volumes"
	areaConfig       = "configuration"
	areaOperator     = "operator"
	areaKubernetes   = "kubernetes"
)

// Kind is a kind of finding: a row of the table in docs/findings.md.
type Kind struct {
	Code     Code
	Area     string
	Severity Severity // the default; a finding may have another one
	Do       string
	wide     bool
}

// Local reports whether a node finds it by itself, see [NodeStatus.Local].
func (k Kind) Local() bool { return !k.wide }

// KindOf returns the kind with a code. It panics if there is none.
func KindOf(c Code) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Code == c })
	if i < 0 {
		panic("health: no kind of finding has the code " + c)
	}
	return Kinds[i]
}
