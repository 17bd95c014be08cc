// Package integration has end-to-end tests with real holdfast processes, called stories, and the test of the imports
// between packages.
//
// The tests of other packages replace everything around the package. The stories replace nothing: [Build] compiles
// the binary, and a [Cluster] starts it for each [Node] with a configuration file. A story then does to these processes
// what happens to machines: kill -9, SIGTERM, a pause that the process does not notice, another address, a blank or a
// foreign disk, a volume that disappears, a store that is missing. The package is no part of holdfast, and runs no node
// in its own process.
//
// # What a story checks
//
// A story checks data, not only health. A [Writer] writes in the background all the time, and remembers the
// acknowledged writes. [Writer.Verify] then reads every one of them from every member, by a linearizable and by a
// serializable read, and compares the members' hashes. A story also checks that there is one record and one etcd
// cluster ID, and that the member list (IDs and peer URLs) has not changed. It checks the reasons for which nodes
// wait, because a node that waits without giving a good reason is a defect.
//
// Stories that need machines of their own run on a [Site]: hosts in network namespaces (package hosts) with EBS volumes
// of a stand-in for EC2. They need root. Package faults runs such nodes under etcd's own checker.
//
// # Rules
//
//   - A story waits for conditions ([Cluster.Until]), never for time to pass. It uses time only where it is about time,
//     such as how long a stop takes. Deadlines are generous, because they only end a story that has failed.
//   - Each cluster has a network of loopback addresses of its own, 127.x.y.0/24, and uses the usual ports there. The
//     network is picked at random and reserved by a listener. So stories run in parallel, and beside other programs.
//   - A story ends only processes that it has started, each in a process group of its own. The kernel kills them when
//     the test ends. If the test fails, it keeps their directory, and prints what each node decided and logged last.
//   - To kill a process at a line of the protocol, set HOLDFAST_TEST_KILL_AT to a step of embedded/coordinator or
//     volume/ebs (before-promise, after-attach, ...). The process kills itself at that step. killing_test.go does so at
//     each step of a sequence, and demands that each was reached.
//   - go test -short runs no stories, but checks the imports.
//   - Of similar stories, such as the kills at many steps, CI runs a share that changes every day, and it leaves a few
//     stories to make prove (package tier).
//
// # The stories
//
//	founding_test.go
//	  KillWhileFounding    one, two or all founders, or a lone one, killed at each step: one cluster, one record
//	  KillWhileReplacing   the joiner, or the leader, killed at each step of a replacement
//	  FoundLate            a founding node is late: the others name the slot that they wait for
//	  WipeTwo              two of three disks wiped: all wait, before and after the third is back
//	life_test.go
//	  Life                 one record, names in the member list, all slots healthy; then the followers are killed one
//	                       after the other, the leader, a majority, and all: the member list does not change
//	  MoveAll              all start on other addresses: the member list does not change
//	  WipeOne              comes back as a learner; the old member is gone
//	disks_test.go
//	  ForeignData          data of another cluster in a founder's volume: untouched until it is set aside
//	  StandbyTakesOver     two nodes, one slot, one root
//	  StandbyTakesSlot     four nodes, three slots, one root; the member list does not change
//	  IdenticalHosts       three hosts with one configuration and no slot named in it
//	  VolumeLost           renamed while serving: ends within 3 s; an unmounted disk is not a blank one
//	  LedgerMissing        repaired from the other nodes, or from the store
//	  Clone                a copy of a running slot's volume does not start
//	  CopiesStartAtOnce    a copied disk and its original start at the same moment: only one of them runs
//	  CopyInAnotherSlot    etcd's directory of one node replaces another node's: it never starts
//	store_test.go
//	  FoundWithoutStore    no founding while the store does not answer
//	  FoundNew             the store knows a cluster that no disk knows: an operator decides
//	  Backups              save, list, verify, etcdutl, one flipped bit, delete
//	  Reload               by a change of the file, and by SIGHUP: what is applied, what needs a restart, what is wrong
//	clock_test.go
//	  ClocksThatAreSet     a whole cluster is founded a month ahead and corrected; one node starts years ahead
//	restore_test.go
//	  Restore              leases, versions, users and the revision; watchers start over
//	  RestoreWhileWriting  writes through every node: the old generation stops before the new one serves
//	  RestoreWithoutOne    a member that was away follows
//	  RestoreWhenAllIsLost the nodes name the command, which restores; what was set aside is reclaimed
//	  RestoreAutomatic     the same without an operator
//	  RestoreForgetsWhatWasSaid  a pause, a lock and a consent in the backup do not come back
//	  RestoreOfEtcdManager a queued command is carried out once, from etcd-manager's own files
//	restore_more_test.go, restore_break_test.go, restore_s3_test.go, restore_manager_test.go
//	  RestoreEncrypted     with the key, without it, and with one node that has none
//	  RestoreWithoutAKey   a member with a seat that cannot read the backup joins as a replacement
//	  RestoreWithoutRoom   one volume is full: the others continue, and it joins
//	  RestoreStorm         random kills during many restores
//	  RestoreFromFailingBucket  the answer to the write at the point of no return is lost
//	  KillWhileProposingCommand, KillWhileProposingAutomatically, KillWhileDiscarding
//	  ReclaimNotBefore     what was set aside stays until the member serves
//	  StoreOfEtcdManager   holdfast takes over a store that etcd-manager has used for years
//	restore_faults_test.go
//	  KillWhileRestoring   one node, or all, killed at each step of a restore
//	  RestoreRefused       flipped, truncated, forged, missing, foreign, encrypted: nothing is touched
//	  RestoreTwice         of three at once one wins
//	  RestoreAborted       by hand, by Ctrl-C, by its timeout
//	recover_test.go
//	  Recover              two of three disks lost under writes: nothing acknowledged is lost; both slots come back
//	  KillWhileRecovering  the survivor killed at each step
//	  RecoverMostAdvanced  of two survivors of five, the one with the more advanced log, and no other
//	  RecoverOfSlowCluster members that were only suspended: aborted
//	  RecoverAutomatic     if the disks are here and empty; otherwise it says what to do
//	resize_test.go
//	  Resize               one, three, five, three, one slots, asked for on one node after the other
//	  ShrinkDeadFirst      of the members that leave, the dead one goes first
//	  KillWhileResizing    at each step, leader and followers
//	  JoinUndone           a learner whose disk is lost blocks nobody
//	upgrade_test.go, etcd35_test.go
//	  UpgradeAndDowngrade  etcd 3.6 to 3.7, down and up again, one node at a time, under writes
//	  UpgradeBackedOutTooLate  all start with an etcd that is too old for their data
//	  RepairWALOfEtcd35    directories of etcd 3.5 are repaired and started
//	upkeep_test.go
//	  NoSpace              full of history: cures itself; full of live data: says so
//	  Defragmentation      one after the other, the leader last, while clients write
//	  Corrupt              explained, and the advice works
//	disk_full_test.go
//	  DiskFull             a member's disk is filled to the last byte: writes are refused, nothing dies, writes continue
//	                       by themselves
//	  DiskFillsUp          etcd itself fills it, at full speed: the same
//	drain_test.go
//	  RollingRestart       a shell loop that waits only for the end of each process
//	  TwoStopsAtOnce       the second waits for the first
//	  Drain                the leader, under load; refused if a member is dead, unless forced
//	  DrainedNodeIsLost    the lock expires
//	explain_test.go
//	  Pause                nothing is replaced until resume
//	  HistoryGoesWithTheDisk  through kill -9, a torn line and a takeover
//	  WhyInTrouble         status --why names what is missing, and the command
//	discover_test.go
//	  DiscoverFollows      a member moves: all outputs follow; all nodes die: they stay
//	  DiscoverIsNeverTorn  killed while it writes: the hosts file is whole
//	  DiscoverOnce         writes and ends, or says why not
//	  ObserversDisturbNothing  three come and go while a cluster is founded and loses a disk
//	snapshot_test.go, snapshot_faults_test.go
//	  SaveUnderLoad        every acknowledged write, and no half of one
//	  SaveOtherEtcd        an etcd without holdfast
//	  EncryptedBackups, ManagerFormat, UnreadableKey
//	  BucketFails, TwoLeadersSave, SpoolFull, KilledSavesAndPrunes
//	lying_bucket_test.go
//	  BucketLies           by a seed, while backups are made; then its listings hide the newest backup from a recovery
//	status_test.go
//	  FoundAlone           a node without any configuration
//	  StatusCodes          0, 1, 2 and 3
//	  Strangers            another gossip key, another cluster's name
//	forget_test.go
//	  ForgetStray          a node of another founding came and went: forgotten everywhere, until it runs again
//	tls_test.go
//	  TLSGiven             authorities of `tls init`: a client or peer without a certificate of the right one is refused
//	stop_test.go
//	  StopLeader           under load with 20 open watches, which miss nothing
//	  StopTwice            the second signal, after more than a second, ends the process
//	  StopSignalledTwice   two signals at once are one clean stop
//	  StopWithoutQuorum    a member that never became ready stops
//	stop_all_test.go
//	  StopAll              a whole cluster ends within 2 s, under load
//	restart_loop_test.go
//	  RestartLoop          the loop of docs/operating.md, as written: it stops at a node that does not come back
//	trouble_test.go
//	  StartFails           the peer port is in use: the node says so, and serves when the port is free
//	  RemovedWhileRunning  by hand: set aside once, back as a learner, in the same process
//	  OrderWithNothingToGiveUp  found --new and --abandon are refused and leave nothing behind
//	  SetAsideKeepsEverything an unreadable ledger: set aside, all of the former disk is kept
//	  StoreHangs           the node stops and starts all the same
//	rivals_test.go
//	  StandbyHostLeavesRestartingMember  four hosts, three slots, a root each: a stopped member keeps its slot
//	  Twin                 a copy of a host, with its name, never runs etcd
//	  TwoClustersInOneGossip  with the same name: both continue, and both report it
//	impostor_test.go
//	  Impostor             a stray with the leader's name runs for 8 s: nothing changes, other members can be drained,
//	                       and its end ends the finding
//	leader_lost_test.go
//	  LeaderLost           the leader's machine vanishes, its process is stopped: one early election each, with its
//	                       reason; a connection cut in one direction: none
//	stall_test.go
//	  StalledDisk          the leader's disk hangs without an error: the member is not ready, and loses the leadership
//	storm_test.go
//	  Storm                random kills, stops, restarts and pauses under load (-seed, -blows)
//	scenarios_test.go, with the table in docs/scenarios.md
//	  KillAlone            the only node
//	  CorruptOne           a damaged database: the node says so, and comes back as a
//	                       learner, also while the other two are down
//	  CorruptAlone         of the only node: no founding, the newest backup is restored
//	doctor_test.go
//	  Doctor               a stale endpoint, an expired certificate, a drained node: every node finds them, and --fix
//	                       repairs what it can
//	takeover_test.go
//	  TakeoverOfPlainEtcd  with its operator's certificates, machine by machine, the leader last, under writes, a watch
//	                       and a lease; and back
//	  TakeoverOfPlainEtcdFenced  both programs on one machine, in both orders
//	  KillWhileTakingPlainEtcdOver  at each step; the other program finds its data
//	takeover_plain_test.go
//	  ReleaseOfTheLastLink  the last release waits while members that were given back do not reach each other
//	takeover_manager_test.go, with the programs in HOLDFAST_TEST_ETCD_MANAGER
//	  TakeoverOfEtcdManager, TakeoverOfEtcdManagerWithStore  hosts with kops' names, ports, flags and authorities; and
//	                       back
//	  TakeoverOfEtcdManagerFenced, KillWhileTakingEtcdManagerOver
//	  TakeoverOfMainAndEvents  two clusters on the same hosts at once; and back
//	  TakeoverAfterRestoreOfEtcdManager  given back, restored by etcd-manager into another cluster, and taken over again
//	  TakeoverChangeOfMind given back after one host
//	  TakeoverPowerCut     while two programs run the cluster
//	  RestoreWhileTakingOver  one that etcd-manager-ctl queues is refused, and shown
//	takeover_kops_test.go, with the same programs
//	  TakeoverOfTwoMastersAtOnce  with flags that name no members
//	  EtcdManagerComesBack  one master, then two, after the takeover and without a release
//	  TakeoverOfWhatTwoFounded  the third joined, and a founder was replaced
//	  TakeoverWithoutTheMark  a command is queued before, and the store loses the mark in the middle and after
//	  ReturnAfterRestore   taken over, restored by etcd-manager-ctl, and given back
//	takeover_etcd35_test.go, with etcd 3.5 in the same place
//	  ShortestStopFromEtcd35  a backup, restored into a new holdfast cluster
//	takeover_phantoms_test.go, with several versions of etcd 3.5 in the same place
//	  PhantomsOfEtcd35, ForgottenPromotionOfEtcd35, ForceNewClusterOfEtcd35  what takeover check finds, before and after
//	                       a newer etcd 3.5 has run
//	ebs_test.go, ebs_operator_test.go, ebs_machines_test.go, ebs_faults_test.go, ebs_fit_test.go, ebs_demo_test.go
//	  EBS…                 volumes that move between machines, and EC2 that fails; each story says which
//	bench_*_test.go, with docs/benchmarks.md
//	imports_test.go
//	  Imports              which package may import which packages and libraries
//	  ReleaseHasNoTestKit  the binary contains no test code
package integration
