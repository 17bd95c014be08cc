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
// killed at once and Run returns [ErrVolumeLost], whatever the others are doing. Others,
// for which nobody waits, write the history and the addresses, delete what was set aside long ago, and have the disruption
// lock of a drained node refreshed by those that run.
//
// # What is on the volume
//
//	identity.json   who the volume is (package volume)
//	founding.json   what the disk has promised and accepted ([plan.Ledger]); fsync'd before it is acted on
//	addresses.json  the last known address of each slot, so that a failing gossip loses no names
//	history.jsonl   what the nodes that held it decided and did, with history.1.jsonl before it; at most 4 MiB
//	etcd/           etcd's data directory
//	restore-<id>/   the data directory with which this slot begins the generation of a restore or a recovery, finished or not
//	aside/          data that was set aside; deleted when the member has served for Config.ReclaimAfter without a
//	                break, but for what an operator has adopted, which may be another cluster's
//
// # Steps
//
// Before and after each durable step of an action the world is told its name (World.Step), and stories end the process
// there: before-KIND and after-KIND of every [plan.Kind] that writes the ledger, as before-promise; before-etcd and
// after-etcd; before-mirror; before-rename of data that is set aside; before-remove and before-add of a replacement. Those
// of longer ways follow.
//
// # Restores and recoveries
//
// A restore is prepared beside the data in use: fetch, verify, rebuild, fsync, ledger. It takes long, so it is the one
// kind of action, beside a proposal, that is given up when another one is due. A failure leaves nothing to go on from;
// the next attempt begins anew. Once the restore is concluded in the store, etcd stops, then the disk accepts the
// record, then the directories are renamed: a disk that is in a record votes in no older one. Each of these steps can
// be repeated. Those a crash can fall between are named for the stories:
//
//	before-propose after-propose
//	before-fetch after-fetch after-build before-prepare after-prepare
//	before-discard after-discard
//	before-conclude after-conclude
//	before-enter-stop after-enter-stop before-enter after-enter
//	before-swap-aside before-rename before-swap-rename after-swap-rename before-swap after-swap
//
// A recovery takes the same steps, on the survivor alone. In place of fetching, it copies its own database while etcd
// runs, and applies the whole log to the copy (before-copy after-copy); and before-abort, when there is a leader again.
//
// # Slots
//
// The wanted slots are changed by more than half of the members' nodes. What the cluster has agreed on is a key in etcd,
// noted on every disk; the leader then makes the members follow, one at a time. The steps, beside those of a replacement:
//
//	before-resize after-resize before-note after-note
//	before-shrink after-shrink before-hand-over after-hand-over before-retire after-retire
//
// # Upkeep
//
// A defragmentation (defrag.go) takes the disruption lock, or under NOSPACE the leader's word, looks again, tells the
// others, hands over if it leads, and only then begins. The leader remembers no word: a member that asks for one, or
// has it, says so to every leader that asks it before it gives the word to another.
//
// # Authorities
//
// Etcd reads the authorities that it trusts only when it starts. A reload (reload.go) stops it in this process, in its
// turn and after handing over, or at once where there is no leader; the loop starts it as after a restart, and gives the
// lock back when it serves (before-reload after-reload).
//
// # The end
//
// Stopping is never paused, and never waits for ever: part.go waits for the disruption lock and the leader's word, for most of stop.wait, and
// then etcd hands over and stops, whatever is at risk. A volume that is lost waits for nothing. A drain (drain.go) is the same by an operator's
// order, refuses where a stop would only wait, and ends with the process.
//
// # Dangers
//
// The ledger must be durable before anything that follows from it is said or done: the order of writes in
// act.go is part of the protocol, and the founding stories kill the process at every step named there.
package coordinator
