// Package metrics makes a node visible: the series that describe the node as a
// whole, and the HTTP server for /metrics, /livez, /readyz and /status.
//
// The server is the first thing a node starts and the last it stops. It is up
// while the node still waits for a volume or a quorum, because that is when an
// operator asks what the node waits for. It therefore depends on nothing but
// the callbacks it is given, and a callback that hangs costs one answer, never
// the server. Its routes are in server.go; cmd/node answers them. What operators
// order of a node comes another way: package cmd/control.
//
// What it never does: it decides nothing, it changes nothing (only GET and HEAD
// are answered), and it never touches prometheus' global registry. Packages
// with series of their own (gossip, snapshot) register them with the same
// injected Registerer; only what belongs to no single package is here.
//
// Invariants:
//   - A scrape sees one observation, whole. All gauges are written from one
//     immutable Sample, so no scrape falls between the old state and the new.
//   - Label values come from short fixed lists (states, actions, slots). The
//     sentence that explains a decision is never a label: each wording would be
//     a series forever.
//   - A connection is bounded in number, time and size: a slow client may delay
//     other clients, never the member.
//   - Profiles (net/http/pprof) have a listener of their own, on loopback only, and are off unless asked for.
//
// Dangers: /status and /metrics are served without authentication, as etcd
// serves its own metrics. They hold no secrets, but node names and addresses;
// bind them to an address that only operators reach.
package metrics
