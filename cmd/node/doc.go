// Package node is the wiring of a node: what `holdfast run` runs.
//
// The wiring reads as one straight line: new.go makes files, store, certificates, mesh, member and coordinator; then
// [Run] (run.go) starts the servers, and around the coordinator everything else. What is beside the member ends with
// the context; metrics, control and gossip outlive the member. The packages that do the work do not know each other.
// Here they meet: etcd.go, volumes.go, mesh.go and backups.go fit them to the coordinator, source.go and users.go to
// the keepers of backups and of etcd's users, certificates.go and authorities.go the certificates to all.
//
// What a node can be asked for is in routes.go, by operators on the control socket, and in the function answer
// (node.go), by other nodes. What it says of itself is gathered once, as a [health.NodeStatus] (node.go, evidence.go,
// findings.go); status, readyz, livez, doctor and the metrics are views of that.
//
// Commands that work without a node open the same things by the same functions: [OpenStore], [OpenProvider],
// [EditionOptions], [FactsAlone], [HistoryAlone].
package node
