package cmd

// downgradePhase is how far a downgrade is.
type downgradePhase string

const (
	downgradePossible downgradePhase = "possible" // nothing was done yet, and nothing is in its way
	downgradeRefused  downgradePhase = "refused"
	downgradeWaiting  downgradePhase = "waiting" // begun; not every member has the older version yet
	downgradeReady    downgradePhase = "ready"   // members of either minor can run: the binaries may be replaced
	downgradeDone     downgradePhase = "done"    // every member runs the older minor
)

// downgrade is what a node says of a downgrade.
type downgrade struct {
	Phase   downgradePhase `json:"phase"`
	To      string         `json:"to"`              // as 3.6
	Cluster string         `json:"cluster_version"` // that the cluster has agreed on
	Target  string         `json:"target,omitempty"`
	Why     []string       `json:"why,omitempty"`     // it is refused, or what it waits for
	Replace []string       `json:"replace,omitempty"` // nodes that run a newer etcd, in the order in which to replace their binaries
}
