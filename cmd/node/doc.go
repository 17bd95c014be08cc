// Package node is the wiring of a node: what `holdfast run` runs.
//
// The wiring reads as one straight line. new.go makes the directories, store, certificates, gossip, member and
// coordinator. Then [Run] (run.go) starts everything, and runs the coordinator until it ends. Most parts end with the
// context, but metrics, control socket and gossip outlive the member.
//
// The packages that do the work do not import each other; this package connects them. etcd.go, volumes.go, gossip.go
// and backups.go adapt them to the coordinator, and etcd.go also to the keepers of backups and of etcd's users.
// certificates.go and authorities.go give all of them certificates.
//
// routes.go lists what operators can ask of a node on the control socket. The method answer (node.go) answers other
// nodes. A node's status is gathered in one place, as a [health.NodeStatus] (node.go, evidence.go, findings.go);
// status, readyz, livez, doctor and the metrics (series.go) are views of it.
//
// Commands that work without a node open the same things with the same functions: [OpenStore], [OpenProvider],
// [EditionOptions], [FactsAlone], [HistoryAlone].
package node
