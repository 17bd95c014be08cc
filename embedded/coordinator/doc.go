// Package coordinator runs a node's life: observe, ask [plan.Next], do one action, observe again.
//
// It never decides. Whatever it learns goes into a [plan.Observation], and whatever it does is one
// [plan.Action], carried out in steps that may be repeated after a kill at any line. It knows the world
// only through the small interfaces in world.go, which cmd fills with the volume, the gossip mesh, the
// etcd member and the backup store.
//
// # What runs beside what
//
// One goroutine observes and decides. An action runs in a goroutine of its own, at most one at a time,
// because starting etcd can take long (it asks its peers, and replays its log) and meanwhile the names
// of the members must stay up to date: etcd resolves them while it starts. The store is asked by a third
// goroutine; no decision ever waits for it. A fourth watches the volume: when that is lost, etcd is
// killed at once and Run returns [ErrVolumeLost], whatever the others are doing.
//
// # What is on the volume
//
//	identity.json   who the volume is (package volume)
//	founding.json   what the disk has promised and accepted ([plan.Ledger]); fsync'd before it is acted on
//	addresses.json  the last known address of each slot, so that a failing gossip loses no names
//	etcd/           etcd's data directory
//	aside/          data that was set aside; never deleted here
//
// # Dangers
//
// The ledger must be durable before anything that follows from it is said or done: the order of writes in
// act.go is part of the protocol, and the founding stories kill the process at every step named there.
package coordinator
