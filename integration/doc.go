// Package integration tells stories about real holdfast processes, and holds the test of the design's arrows.
//
// What the other packages' tests prove, they prove of one package with the world replaced. Here nothing is
// replaced: [Build] compiles the binary that is released, a [Cluster] starts it once for each [Node] with a
// configuration file, and a story does to these processes what happens to machines: kill -9, SIGTERM, a pause
// that nobody in the process notices, another address, a blank or a foreign disk, a volume that disappears, a
// store that is not there. The package is no part of holdfast and starts none in its own process.
//
// # What a story checks
//
// Data, not only health. A [Writer] writes in the background all the time and remembers what was acknowledged;
// [Writer.Verify] then demands every single write back from every member, by a linearizable and by a
// serializable read, and that all members hash the same. Besides: that there is one record and one etcd cluster
// ID, that the member list (IDs and peer URLs) is the one it was, and what the nodes say they wait for, because
// a node that waits without a good reason given is a defect.
//
// Stories that need machines of their own run on a [Site]: hosts in network namespaces (package hosts) with EBS volumes
// of a stand-in for EC2. They need root. Package faults runs such nodes under etcd's own checker.
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
//     embedded/coordinator or volume/ebs (before-promise, after-attach, ...) at which the process kills itself.
//   - go test -short tells no stories; the arrows are checked all the same.
//   - Of kills at each of many steps CI runs a share, and leaves a few stories to make prove: package tier says how.
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
//	  KillLeader           writes continue; it comes back
//	  KillAll              all killed at once, all started again
//	  MoveAll              all start on other addresses: the member list does not change
//	  WipeOne              comes back by way of a learner; the old member is gone
//	disks_test.go
//	  ForeignData          data of another cluster in a founder's volume: untouched until it is set aside
//	  StandbyTakesOver     two nodes, one slot, one root
//	  StandbyTakesSlot     four nodes, three slots, one root; the member list does not change
//	  IdenticalHosts       three hosts with one configuration and no slot named in it
//	  VolumeLost           renamed while serving: ends within 3 s; an unmounted disk is not a blank one
//	  LedgerMissing        repaired from what the others know, or the store
//	  Clone                a copy of a running slot's volume does not start
//	  CopiesStartAtOnce    a copied disk and its original in the same moment: one of both runs
//	  CopyInAnotherSlot    etcd's directory of one node in the place of another's: it never starts
//	store_test.go
//	  FoundWithoutStore    no founding while the store does not answer
//	  FoundNew             the store knows a cluster that no disk knows: an operator decides
//	  Backups              save, list, verify, etcdutl, one flipped bit, delete
//	  Reload               of the file and by SIGHUP: what is taken over, what needs a restart, what is wrong
//	restore_test.go
//	  Restore              leases, versions, users and the revision; watchers are told
//	  RestoreWhileWriting  through every node: the old generation is silent before the new one speaks
//	  RestoreWithoutOne    a member that was away follows
//	  RestoreWhenAllIsLost the nodes name the command, which restores; what was set aside is reclaimed
//	  RestoreAutomatic     the same without an operator
//	  RestoreForgetsWhatWasSaid  a pause, a lock and a consent of the backup's time do not come back
//	  RestoreOfEtcdManager a queued command is carried out once, from etcd-manager's own files
//	restore_more_test.go, restore_break_test.go, restore_s3_test.go, restore_manager_test.go
//	  RestoreEncrypted     with the key, without it, and where one node alone has none
//	  RestoreWithoutAKey   a member with a seat that cannot read the backup joins as a replacement
//	  RestoreWithoutRoom   one volume is full: the others continue, and it joins
//	  RestoreStorm         random kills during one restore after the other
//	  RestoreFromFailingBucket  the answer to the point of no return is lost
//	  KillWhileProposingCommand, KillWhileProposingAutomatically, KillWhileDiscarding
//	  ReclaimNotBefore     what was set aside stays until the member serves
//	  StoreOfEtcdManager   a store that etcd-manager has used for years becomes ours
//	restore_faults_test.go
//	  KillWhileRestoring   one, or all, killed at one step after the other of one restore
//	  RestoreRefused       flipped, truncated, forged, missing, foreign, sealed: nothing is touched
//	  RestoreTwice         of three at once one wins
//	  RestoreAborted       by hand, by Ctrl-C, by its timeout
//	recover_test.go
//	  Recover              two of three disks lost under writes: nothing acknowledged is lost; the lost come back
//	  KillWhileRecovering  the survivor killed at one step after the other
//	  RecoverMostAdvanced  of two survivors of five the one with the more advanced log, and no other
//	  RecoverOfSlowCluster members that only stood still: aborted
//	  RecoverAutomatic     where the disks are here and empty; elsewhere it says what to do
//	resize_test.go
//	  Resize               one, three, five, three, one, from node to node
//	  ShrinkDeadFirst      of those that leave the dead one goes first
//	  KillWhileResizing    at each step, leader and followers
//	  JoinUndone           a learner whose disk is lost blocks nobody
//	upgrade_test.go, etcd35_test.go
//	  UpgradeAndDowngrade  etcd 3.6 to 3.7, down and up again, one node at a time, under writes
//	  UpgradeBackedOutTooLate  all start with an etcd that is too old for their data
//	  RepairWALOfEtcd35    directories of etcd 3.5 are repaired and started
//	upkeep_test.go
//	  NoSpace              full of history: cures itself; full of live data: says so
//	  Defragmentation      one after the other, the leader last, while clients write
//	  Corrupt              explained, and what it says to do works
//	disk_full_test.go
//	  DiskFull             a member's disk is filled to the last byte: writes are refused, nobody dies, they continue
//	                       by themselves
//	  DiskFillsUp          by etcd itself, at full speed: the same
//	drain_test.go
//	  RollingRestart       a shell loop that waits for nothing but the end of each process
//	  TwoStopsAtOnce       the second waits for the first
//	  Drain                the leader, under load; refused where a member is dead, unless forced
//	  DrainedNodeIsLost    the lock ends
//	explain_test.go
//	  Pause                nothing is replaced; after a resume it is
//	  HistoryGoesWithTheDisk  through kill -9, a torn line and a takeover
//	  WhyInTrouble         status --why names what is missing, and the command
//	discover_test.go
//	  DiscoverFollows      a member moves: all outputs follow; all nodes die: they stay
//	  DiscoverIsNeverTorn  killed while it writes: the hosts file is whole
//	  DiscoverOnce         writes and ends, or says why not
//	  ObserversDisturbNothing  three come and go while a cluster is founded and loses a disk
//	snapshot_test.go, snapshot_faults_test.go
//	  SaveUnderLoad        every acknowledged write, none by halves
//	  SaveOtherEtcd        an etcd that is not ours
//	  EncryptedBackups, ManagerFormat, UnreadableKey
//	  BucketFails, TwoLeadersSave, SpoolFull, KilledSavesAndPrunes
//	status_test.go
//	  FoundAlone           a node that is told nothing
//	  StatusCodes          0, 1, 2 and 3
//	  Strangers            another gossip key, another cluster's name
//	forget_test.go
//	  ForgetStray          a node of another founding came and went: forgotten everywhere, until it runs again
//	tls_test.go
//	  TLSGiven             authorities of `tls init`: who has no certificate of the right one is refused, as client and
//	                       as peer
//	stop_test.go
//	  StopLeader           under load with 20 open watches, which miss nothing
//	  StopTwice            the second signal, after more than a second, ends the process
//	  StopSignalledTwice   two at once are one clean stop
//	  StopWithoutQuorum    a member that never became ready stops
//	stop_all_test.go
//	  StopAll              a whole cluster ends within 2 s, under load
//	restart_loop_test.go
//	  RestartLoop          the loop of docs/operating.md, as written: it stops at a node that does not come back
//	trouble_test.go
//	  StartFails           the peer port is taken: it says so, lives on, and serves when the port is free
//	  RemovedWhileRunning  by hand: set aside once, back by way of a learner, in the same process
//	  OrderWithNothingToGiveUp  found --new and --abandon are refused and leave nothing behind
//	  SetAsideKeepsEverything an unreadable ledger: set aside, all of the former disk is kept
//	  StoreHangs           it stops, and starts, all the same
//	rivals_test.go
//	  StandbyHostLeavesRestartingMember  four hosts, three slots, a root each: a stopped member keeps its slot
//	  Twin                 a copied host, name and all, never runs etcd
//	  TwoClustersInOneGossip  of one name: both continue, and both say so
//	impostor_test.go
//	  Impostor             a stray with the leader's name lives for 8 s: nothing changes, others can be drained, and it
//	                       is over when it is dead
//	leader_lost_test.go
//	  LeaderLost           the leader's machine vanishes, its process is stopped: one early election each, with its
//	                       reason; a line broken one way: none
//	stall_test.go
//	  StalledDisk          the leader's disk takes no writes and reports no error: not ready, and not the leader
//	storm_test.go
//	  Storm                random kills, stops, restarts and pauses under load (-seed, -blows)
//	scenarios_test.go, with the table in docs/scenarios.md
//	  KillFollower         one after the other
//	  KillMajority         the survivor waits; the member list does not change
//	  KillAlone            the only node
//	  CorruptOne           a damaged database: the node says so, and comes back by way of a learner
//	  CorruptOneWhileTwoAreDown
//	  CorruptAlone         of the only node: nothing is founded again, the newest backup is restored
//	doctor_test.go
//	  Doctor               a stale endpoint, an expired certificate, a drained node: found by all, and what can be is
//	                       repaired
//	takeover_test.go
//	  TakeoverOfPlainEtcd  machine by machine, the leader last, under writes, a watch and a lease; and back
//	  TakeoverOfPlainEtcdFenced  both programs on one machine, in both orders
//	  KillWhileTakingPlainEtcdOver  at each step; the other program finds its data
//	takeover_plain_test.go
//	  TakeoverOfPlainEtcdWithTLS  with its operator's certificates; and back
//	  ReleaseOfTheLastLink  members that were given back and do not reach each other hold the last release up
//	takeover_manager_test.go, with the programs in HOLDFAST_TEST_ETCD_MANAGER
//	  TakeoverOfEtcdManager, TakeoverOfEtcdManagerWithStore  hosts with kops' names, ports, flags and authorities; and
//	                       back
//	  TakeoverOfEtcdManagerFenced, KillWhileTakingEtcdManagerOver
//	  TakeoverOfMainAndEvents  two clusters on the same hosts at once; and back
//	  TakeoverAfterRestoreOfEtcdManager  given back, restored by etcd-manager into another cluster, and that taken over
//	  TakeoverChangeOfMind back after one host
//	  TakeoverPowerCut     while two programs run the cluster
//	  RestoreWhileTakingOver  one that etcd-manager-ctl queues is refused, and shown
//	takeover_kops_test.go, with the same programs
//	  TakeoverOfTwoMastersAtOnce  by flags that name no members
//	  EtcdManagerComesBack  one master, then two, after the takeover and without a release
//	  TakeoverOfWhatTwoFounded  the third joined, and a founder was replaced
//	  TakeoverWithoutTheMark  a command is queued before, and the store loses the mark in the middle and after
//	  ReturnAfterRestore   taken over, restored by etcd-manager-ctl, and given back
//	takeover_etcd35_test.go, with etcd 3.5 in the same place
//	  ShortestStopFromEtcd35  a backup, restored into a new cluster of holdfast's
//	takeover_phantoms_test.go, with several of etcd 3.5 in the same place
//	  PhantomsOfEtcd35, ForgottenPromotionOfEtcd35, ForceNewClusterOfEtcd35  what takeover check says of each, before and
//	                       after a newer etcd 3.5 has run
//	ebs_test.go, ebs_operator_test.go, ebs_machines_test.go, ebs_faults_test.go, ebs_fit_test.go, ebs_demo_test.go
//	  EBS…                 volumes that move between machines, and EC2 that fails; each story says which
//	bench_*_test.go, with docs/benchmarks.md
//	imports_test.go
//	  Imports              who may import whom, and which library
//	  ReleaseHasNoTestKit  the binary is the product alone
package integration
