// Package coordinator runs a node's life: observe, ask [plan.Next], carry out one action, observe again.
//
// It never decides. What it learns goes into a [plan.Observation], and what it does is one [plan.Action], in steps that
// can be repeated after a kill at any line. It knows the world only through the small interfaces in world.go, which
// cmd/node implements with the volume, the gossip mesh, the etcd member and the backup store.
//
// # The parts
//
// [Coordinator] is what other packages ask and order (coordinator.go; orders.go, release.go, drain.go,
// sentinel.go). Behind it, each part has its own state and lock, and New wires them:
//
//	loop       loop.go              observes, decides, begins one action, looks again; part.go: the end of the process
//	observer   observer.go          gathers the observation: each part adds what it knows
//	decider    decide.go            asks the plan; a panic there is reported (bugs), and the node waits
//	actor      act.go, confirm.go   carries out one action; asks again right before an irreversible step
//	contest    contest.go           asks the nodes that may start the same member, before ours starts; answers them
//	members    members.go           changes the member list
//	restorer   restore.go           the steps of a restore; propose.go: before them, and of a recovery
//	turn       turn.go              takes the disruption lock (a key: embedded/disruption.go); what is done under it:
//	                                defrag.go, and reload
//	sentinel   sentinel.go          watches the store, objects to proposals, commits a consent
//	announcer  announcer.go         announces this node's facts to the others; answer.go: answers their questions
//	peers      peers.go             asks the other nodes directly
//	campaigner campaign.go          watches the leader, and starts an election early if the plan says so
//
// What is remembered:
//
//	holding      holding.go         the held volume, its ledger (ledger.go), and who may touch it (gate)
//	generations  generations.go     what the store says, which proposals are open, what operators ordered; ending.go
//	status       status.go          the [Situation], for anyone who asks
//	history      history.go         what was decided and done, for people
//	names        names.go           who holds each slot, and at which address
//	dataDir      inspect.go         what etcd's data directory contains, and the newest backup
//	restoring, upkeep, saver, asides   what was tried, and when: each in the file of its name; learners: members.go
//
// So the plan decides, when loop.live asks it; actor.act carries the decision out; and holding.record, which alone
// writes the ledger, writes it down before anything that follows from it.
//
// # Goroutines
//
// One goroutine observes and decides. Each action runs in a goroutine of its own, one at a time. Starting etcd can take
// long, because it asks its peers and replays its log. Meanwhile the names of the members must stay up to date: etcd
// resolves them while it starts. A third goroutine asks the store; no decision ever waits for it. A fourth watches the
// volume. If that is lost, it kills etcd at once, and Run returns [ErrVolumeLost], whatever the others are doing. Other
// goroutines, which nobody waits for, write the history and the addresses, delete old data that was set aside, and have
// the disruption lock of a drained node refreshed by running nodes.
//
// # Locks
//
// A part takes its own lock and no other, with two exceptions. The observer holds its lock while each part completes
// the observation, so that observations follow one another. The holding keeps its lock while it asks the status whether
// an order may begin, and while it tells the history where to write. The order is: observer, holding, any other. No
// lock is held while waiting for etcd, the store, another node or the disk.
//
// # Files on the volume
//
//	identity.json   which volume this is (package volume)
//	founding.json   what the disk has promised and accepted ([plan.Ledger]); fsync'd before it is acted on
//	addresses.json  the last known address of each slot, so that no names are lost when the gossip fails
//	history.jsonl   what the nodes that held it decided and did; older entries in history.1.jsonl; at most 4 MiB
//	etcd/           etcd's data directory
//	restore-<id>/   the data directory with which this slot begins the generation of a restore or a recovery, complete
//	                or not
//	aside/          data that was set aside; deleted once the member has served for Config.ReclaimAfter without a
//	                break, except what an operator has set aside, which may be another cluster's, and data that went
//	                back in time
//
// # Steps
//
// Before and after each durable step of an action, World.Step is called with the step's name; stories end the process
// there. The names are before-KIND and after-KIND of every [plan.Kind] that writes the ledger, such as before-promise;
// before-etcd and after-etcd; before-mirror; before-rename of data that is set aside; before and after remove, add and
// promote. The sections below list more.
//
// # Restores and recoveries
//
// A restore is prepared beside the data in use: fetch, verify, rebuild, fsync, ledger. That takes long. So preparing
// and proposing are the only actions that are cancelled when another one is due. After a failure, the next attempt
// starts over. Once the restore is concluded in the store, etcd stops, then the disk accepts the record, then the
// directories are renamed: a disk in a record votes in no older generation. Each step can be repeated. Stories crash
// between these:
//
//	before-propose after-propose
//	before-fetch after-fetch after-build before-prepare after-prepare
//	before-discard after-discard
//	before-conclude after-conclude
//	before-leave-stop after-leave-stop
//	before-enter-stop after-enter-stop before-enter after-enter
//	before-swap-aside before-rename before-swap-rename after-swap-rename before-swap after-swap
//
// A recovery takes the same steps, on the survivor alone. Instead of fetching, the survivor copies its own database
// while etcd runs, and applies the whole log to the copy (before-copy after-copy). If there is a leader again:
// before-abort.
//
// # Slots
//
// More than half of the members' nodes change the wanted slots. The agreed set is a key in etcd, noted on every disk.
// The leader then changes the member list, one member at a time. The steps, besides those of a replacement:
//
//	before-resize after-resize before-note after-note
//	before-shrink after-shrink before-hand-over after-hand-over before-retire after-retire
//
// # Upkeep
//
// A defragmentation (defrag.go) takes the disruption lock, or under NOSPACE the leader's permission. Then it looks
// again, announces itself, hands over if it leads, and only then begins. The leader remembers no permission. A member
// that asks for one, or has one, says so to every leader that asks it before granting another.
//
// # Authorities
//
// etcd reads the authorities that it trusts only when it starts. A reload (turn.go) stops it in this process, under
// the lock and after handing over, or at once if there is no leader. The loop then starts it as after a restart, and
// returns the lock when it serves (before-reload after-reload).
//
// # The end
//
// Stopping is never paused, and never waits forever. part.go waits for the disruption lock and the leader's answer, for
// most of stop.wait; then etcd hands over and stops, whatever is at risk. A lost volume waits for nothing. If a disk
// hangs, Run returns all the same, within stop.wait plus 20 s ([ErrHangs]). A drain (drain.go) is the same by an
// operator's order, is refused where a stop would only wait, and ends with the process.
//
// # Dangers
//
// The ledger must be durable before anything that follows from it is announced or done: the order of writes in act.go
// and restore.go is part of the protocol. The founding stories kill the process at every step named there.
package coordinator
