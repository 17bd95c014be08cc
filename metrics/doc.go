// Package metrics makes a node visible: the series that describe the node as a whole, and the HTTP server for /metrics,
// /livez, /readyz and /status.
//
// The server is the first thing a node starts and the last it stops. It runs while the node still waits for a volume or
// a quorum, because that is when an operator asks what the node waits for. So it depends on nothing but the callbacks
// it is given, and a callback that hangs costs one answer, never the server. Its routes are in server.go; cmd/node
// answers them. Operators' commands to a node come another way: package cmd/control.
//
// It decides nothing and changes nothing (only GET and HEAD are answered), and it never touches prometheus' global
// registry. Packages with series of their own (gossip, snapshot) register them with the same injected Registerer. Here
// are only the counters of decisions ([Counters]), and what makes [Series] at each scrape; cmd/node/series.go names
// them.
//
// Invariants:
//   - A scrape sees one whole observation: cmd/node makes all series of a scrape from one situation of the coordinator.
//   - Label values come from short fixed lists (states, actions, slots). The sentence that explains a decision is never
//     a label: each wording would be a series forever.
//   - Connections are limited in number, time and size: a slow client may delay other clients, never the member.
//   - Profiles (net/http/pprof) have their own listener, only on loopback, and are off by default.
//
// Dangers: /status and /metrics are served without authentication, as etcd serves its own metrics. They contain no
// secrets, but node names and addresses. Bind them to an address that only operators can reach.
package metrics
