// Package coordinator runs a node's life: observe, ask [plan.Next], do one action, observe again.
//
// It never decides. What it learns goes into a [plan.Observation], and what it does is one [plan.Action], carried out
// in steps that may be repeated after a kill at any line. It knows the world only through the small interfaces in
// world.go, which cmd/node fills with the volume, the gossip mesh, the etcd member and the backup store.
//
// # The parts
//
// [Coordinator] is what others ask and order (coordinator.go; orders.go, setaside.go, release.go, drain.go, pause.go,
// consent.go). Behind it, each part has its own state and lock, and New wires them:
//
//	loop       loop.go, pace.go     observes, decides, begins one action, looks again; part.go: the end of the process
//	observer   observer.go          gathers the observation: each part adds what it knows
//	decider    decide.go            asks the plan; bugs.go: a panic there is reported, and the node waits
//	actor      act.go, confirm.go   carries out one action; asks again right before what cannot be taken back
//	contest    contest.go           asks who may start the same member, right before ours starts, and answers those who ask
//	members    members.go           what an action changes in the list of the members
//	restorer   restore.go           the steps of a restore; propose.go: before them; recover.go: of a recovery
//	turn       turn.go              takes the disruption lock (a key: embedded/disruption.go); what is done under it:
//	                                defrag.go, reload.go
//	sentinel   sentinel.go          watches the store, objects to proposals, commits a consent
//	announcer  announcer.go         tells the other nodes what this one says of itself; answer.go: when they ask
//	peers      peers.go             asks the other nodes directly
//
// What is remembered:
//
//	holding      holding.go         the held volume and its ledger (ledger.go); gate.go: who may touch it
//	generations  generations.go     what the store says, which proposals are open, what operators ordered; ending.go
//	status       status.go          the [Situation], for anyone who asks
//	history      history.go         what was decided and done, for people
//	names        names.go           who holds each slot, and at which address
//	dataDir      inspect.go         what lies in etcd's data directory; newest.go: in the newest backup
//	restoring, upkeep, learners, saver, asides   what was tried, and when: each in the file of its name
//
// So a decision is made by the plan, which loop.live asks; it is carried out by actor.act; and it is written down by
// holding.record, which alone writes the ledger, before anything that follows from it.
//
// # What runs beside what
//
// One goroutine observes and decides. An action runs in a goroutine of its own, at most one at a time, because starting
// etcd can take long (it asks its peers, and replays its log) and meanwhile the names of the members must stay up to
// date: etcd resolves them while it starts. The store is asked by a third goroutine; no decision ever waits for it. A
// fourth watches the volume: when that is lost, etcd is killed at once and Run returns [ErrVolumeLost], whatever the
// others are doing. Others, for which nobody waits, write the history and the addresses, delete what was set aside long
// ago, and have the disruption lock of a drained node refreshed by those that run.
//
// # Locks
//
// A part takes its own lock and no other, with two exceptions. The observer holds its lock while each part completes
// the observation, so that observations follow one another. The holding holds its lock while it asks the status
// whether an order may begin, and while it tells the history where to write. The order is: observer, holding, any
// other. No lock is held while etcd, the store, another node or the disk is waited for.
//
// # What is on the volume
//
//	identity.json   who the volume is (package volume)
//	founding.json   what the disk has promised and accepted ([plan.Ledger]); fsync'd before it is acted on
//	addresses.json  the last known address of each slot, so that a failing gossip loses no names
//	history.jsonl   what the nodes that held it decided and did, with history.1.jsonl before it; at most 4 MiB
//	etcd/           etcd's data directory
//	restore-<id>/   the data directory with which this slot begins the generation of a restore or a recovery, finished
//	                or not
//	aside/          data that was set aside; deleted when the member has served for Config.ReclaimAfter without a
//	                break, but for what an operator has set aside, which may be another cluster's
//
// # Steps
//
// Before and after each durable step of an action the world is told its name (World.Step), and stories end the process
// there: before-KIND and after-KIND of every [plan.Kind] that writes the ledger, as before-promise; before-etcd and
// after-etcd; before-mirror; before-rename of data that is set aside; before-remove and before-add of a replacement.
// Those of longer ways follow.
//
// # Restores and recoveries
//
// A restore is prepared beside the data in use: fetch, verify, rebuild, fsync, ledger. It takes long, so it is the one
// kind of action, beside a proposal, that is given up when another one is due. A failure leaves nothing to continue
// from; the next attempt starts over. Once the restore is concluded in the store, etcd stops, then the disk accepts the
// record, then the directories are renamed: a disk that is in a record votes in no older one. Each of these steps can
// be repeated. Those a crash can fall between are named for the stories:
//
//	before-propose after-propose
//	before-fetch after-fetch after-build before-prepare after-prepare
//	before-discard after-discard
//	before-conclude after-conclude
//	before-leave-stop after-leave-stop
//	before-enter-stop after-enter-stop before-enter after-enter
//	before-swap-aside before-rename before-swap-rename after-swap-rename before-swap after-swap
//
// A recovery takes the same steps, on the survivor alone. In place of fetching, it copies its own database while etcd
// runs, and applies the whole log to the copy (before-copy after-copy); and before-abort, when there is a leader again.
//
// # Slots
//
// The wanted slots are changed by more than half of the members' nodes. What the cluster has agreed on is a key in
// etcd, noted on every disk; the leader then makes the members follow, one at a time. The steps, beside those of a
// replacement:
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
// turn and after handing over, or at once where there is no leader; the loop starts it as after a restart, and gives
// the lock back when it serves (before-reload after-reload).
//
// # The end
//
// Stopping is never paused, and never waits forever: part.go waits for the disruption lock and the leader's word, for
// most of stop.wait, and then etcd hands over and stops, whatever is at risk. A volume that is lost waits for nothing.
// A drain (drain.go) is the same by an operator's order, refuses where a stop would only wait, and ends with the
// process.
//
// # Dangers
//
// The ledger must be durable before anything that follows from it is said or done: the order of writes in
// act.go and restore.go is part of the protocol, and the founding stories kill the process at every step named there.
package coordinator
