// Package integration tells stories about real holdfast processes, and holds the test of the design's arrows.
//
// What the other packages' tests prove, they prove of one package with the world replaced. Here nothing is
// replaced: [Build] compiles the binary that is released, a [Cluster] starts it once for each [Node] with a
// configuration file, and a story does to these processes what happens to machines: kill -9, SIGTERM, a pause
// that nobody in the process notices, another address, a blank or a foreign disk, a volume that disappears, a
// store that is not there. The package is no part of holdfast and imports no code that starts one.
//
// # What a story checks
//
// Data, not only health. A [Writer] writes in the background all the time and remembers what was acknowledged;
// [Writer.Verify] then demands every single write back from every member, by a linearizable and by a
// serializable read, and that all members hash the same. Besides: that there is one record and one etcd cluster
// ID, that the member list (IDs and peer URLs) is the one it was, and what the nodes say they wait for, because
// a node that waits without a good reason given is a defect.
//
// # Rules
//
//   - A story waits for conditions ([Cluster.Until]), never for time to pass. Time is in it only as what it is
//     about: how long a stop takes, or when the next blow of the storm falls. Deadlines are generous, since they
//     only end a story that has failed.
//   - Each cluster has a network of loopback addresses of its own, 127.x.y.0/24, picked at random and held by a
//     listener, and uses the usual ports there. So stories run side by side, and beside whatever else runs here.
//   - Only processes that were started here are ended, each in a process group of its own. They die with the
//     test (the kernel sees to it), and their directory is kept when the test fails; what each node decided and
//     logged last is printed.
//   - Killing at a line of the protocol: the environment variable HOLDFAST_TEST_KILL_AT names a step of
//     embedded/coordinator (before-promise, after-etcd, ...) at which the process kills itself.
//   - go test -short tells no stories; the arrows are checked all the same.
//
// # The stories
//
//	founding_test.go
//	  KillWhileFounding    one, two or all founders, or a lone one, killed at each step: one cluster, one record
//	  KillWhileReplacing   the joiner, or the leader, killed at each step of a replacement
//	  FoundLate            a founding node is late: the others say for which slot they wait
//	  WipeTwo              two of three disks wiped: all wait, before and after the third is back
//	life_test.go
//	  FoundThree           one record, names in the member list, all slots healthy
//	  KillLeader           writes go on; it comes back
//	  KillAll              all killed at once, all started again
//	  MoveAll              all start on other addresses: the member list does not change
//	  WipeOne              comes back by way of a learner; the old member is gone
//	disks_test.go
//	  ForeignData          data of another cluster in a founder's volume: untouched until it is adopted
//	  StandbyTakesOver     two nodes, one slot, one root
//	  StandbyTakesSlot     four nodes, three slots, one root; the member list does not change
//	  IdenticalHosts       three hosts with one configuration and no slot named in it
//	  VolumeLost           renamed while serving: ends within 3 s; an unmounted disk is not a blank one
//	  LedgerMissing        repaired from what the others know, or the store
//	  Clone                a copy of a running slot's volume does not start
//	store_test.go
//	  FoundWithoutStore    no founding while the store does not answer
//	  FoundNew             the store knows a cluster that no disk knows: an operator decides
//	  Backups              save, list, verify, etcdutl, one flipped bit, delete
//	  Reload               of the file and by SIGHUP: what is taken over, what needs a restart, what is wrong
//	status_test.go
//	  FoundAlone           a node that is told nothing
//	  StatusCodes          0, 1, 2 and 3
//	  Strangers            another gossip key, another cluster's name
//	stop_test.go
//	  StopLeader           under load with 20 open watches, which miss nothing
//	  StopTwice            the second signal ends the process
//	  StopWithoutQuorum    a member that never became ready stops
//	review_test.go
//	  StartFails           the peer port is taken: it says so, lives on, and serves when the port is free
//	  RemovedWhileRunning  by hand: set aside once, back by way of a learner, in the same process
//	  StandbyHostLeavesRestartingMember  four hosts, three slots, a root each: a stopped member keeps its slot
//	  Twin                 a copied host, name and all, never runs etcd
//	  TwoClustersInOneGossip  of one name: both go on, and both say so
//	  OrderWithNothingToGiveUp  found --new and --abandon are refused and leave nothing behind
//	  AdoptKeepsEverything an unreadable ledger: adopted, all of the former disk is kept
//	  StoreHangs           it stops, and starts, all the same
//	storm_test.go
//	  Storm                random kills, stops, restarts and pauses under load (-seed, -blows)
//	imports_test.go
//	  Imports              who may import whom, and which library
package integration
