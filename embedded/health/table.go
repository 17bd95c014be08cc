package health

// Kinds are all kinds of findings, by area. docs/findings.md says what each means, and where it comes from.
var Kinds = []Kind{
	{NotExamined, "", Warning, "Fix what the text names, and check again."},

	{QuorumLost, areaQuorum, Critical,
		"Bring the missing nodes back. If their disks are gone for good: `holdfast recover` shows what is left."},
	{Electing, areaQuorum, Critical, "Wait some seconds; it becomes no-quorum if the election does not end."},
	{LeaderDisputed, areaQuorum, Degrading, "Look at the disk and the network of the other node."},

	{NodeSilent, areaNodes, Warning, "Look at its log."},
	{NodeLost, areaNodes, Warning,
		"Start it again, or give its volume to another machine; a blank disk for this slot is filled by the others."},
	{LostBlocks, areaNodes, Degrading, "Bring its disk back, or `holdfast gossip forget NODE` if it is gone for good."},
	{ActionFails, areaNodes, Degrading, "Fix what the text names; `holdfast history` shows since when it fails."},
	{Bug, areaNodes, Degrading, "Report it with the text and the log. The member keeps serving."},
	{LoopStuck, areaNodes, Critical, "Restart the process; report it with the log."},
	{NamesUnknown, areaNodes, Degrading, "Remove what the text names."},
	{NamesStale, areaNodes, Degrading,
		"Remove the line, or etcd-manager's whole block: it writes it again when it starts (docs/migrate.md)."},

	{SlotDown, areaSlots, Degrading,
		"Start its node, or give the slot to another machine: a blank disk there is filled by the others."},
	{SlotUnseen, areaSlots, Warning,
		"Open the gossip port (TCP and UDP) between the nodes; give each node its own node.name."},
	{SlotForeign, areaSlots, Warning,
		"Take the machine of that member over next, or give the others back (docs/migrate.md)."},
	{SlotReleased, areaSlots, Warning,
		"Release the next member, the leader last. To keep the cluster here, take the machine over again, and `holdfast " +
			"resume` when every member runs here."},
	{SlotLearner, areaSlots, Degrading, "Wait; the leader promotes it when it is in sync."},
	{SlotTwice, areaSlots, Degrading, "Find out which one is right, and stop the other: `holdfast status` shows both."},
	{Stalled, areaSlots, Degrading,
		"Look at the disk (`dmesg`, the cloud's console). If it does not come back, move the slot to another one; the " +
			"others serve meanwhile."},

	{MemberMissing, areaMembers, Degrading,
		"Start a node for it; `holdfast status --why` says what holds a node back that is there."},
	{MemberCutOff, areaMembers, Degrading, "Bring the missing members back before another one fails."},
	{MemberStale, areaMembers, Degrading, "The leader removes it by itself as soon as that is safe."},
	{MemberUnnamed, areaMembers, Info, "Wait a moment; if it stays so, look at its node's log."},
	{LearnerSlow, areaMembers, Degrading,
		"Look at the disk and the network between it and the leader; a learner counts for no quorum."},
	{MemberDiffers, areaMembers, Critical,
		"Run `holdfast rejoin` on its node: its data is set aside, and it gets that of the others (docs/upkeep.md)."},

	{AlarmNoSpace, areaAlarms, Critical,
		"Switch upkeep.cure-nospace on, on all nodes; it compacts, defragments and disarms the alarm (docs/upkeep.md)."},
	{AlarmCorrupt, areaAlarms, Critical,
		"`holdfast status` says which member differs (member-differs): run `holdfast rejoin` on its node, and `holdfast " +
			"etcdctl alarm disarm` when it serves again."},
	{AlarmUnknown, areaAlarms, Critical, "See etcd's own documentation."},

	{TwoClusters, areaGenerations, Degrading, "Keep one of them away from this gossip."},
	{Conflict, areaGenerations, Warning, "Find out where it comes from; the text says what to do."},
	{StoreUnread, areaGenerations, Warning,
		"Look at the object that the text names, or use a store that honors If-None-Match."},
	{PeerUnread, areaGenerations, Warning, "Finish the upgrade; look at that node."},
	{RestoreOpen, areaGenerations, Degrading,
		"Follow it with `holdfast status`; if it is no longer wanted, `holdfast restore --abort`."},
	{RestoreStuck, areaGenerations, Degrading, "Fix what the text names, or `holdfast restore --abort`."},
	{RestoreRefused, areaGenerations, Warning, "Use `holdfast restore`, or fix what the text names."},
	{BackupUnmade, areaGenerations, Degrading, "Fix what the text names."},

	{VersionsDiffer, areaVersions, Warning, "Finish the upgrade."},
	{ClusterVersion, areaVersions, Warning, "Wait a minute after an upgrade; if it stays so, look at the leader's log."},
	{DowngradeOpen, areaVersions, Warning, "Continue as docs/upgrade.md says, or `holdfast downgrade --cancel`."},

	{ClockApart, areaClocks, Warning, "Have both follow the same time servers (chrony)."},
	{ClockStore, areaClocks, Warning, "Have the node follow a time server (chrony)."},

	{DiskSlow, areaDisks, Warning,
		"Give etcd a faster disk, or one that it does not share; `etcd_disk_*` of /metrics shows whether it is so at " +
			"present."},
	{DiskUnmeasured, areaDisks, Info, "Check again when etcd has been written to for a while."},
	{DiskLow, areaDisks, Warning, "Make the volume larger, or delete what is not etcd's."},
	{DiskFull, areaDisks, Degrading, "Make the volume larger, or delete what is not etcd's."},
	{DiskReserve, areaDisks, Critical,
		"Make the volume larger, or delete what is not etcd's: writes resume once there is enough room (docs/upkeep.md)."},
	{DiskUnread, areaDisks, Warning, "Look at the volume."},
	{SpoolLow, areaDisks, Warning,
		"Make room there, or set snapshot.spool to a directory with more: backups fail without it."},
	{ScratchLow, areaDisks, Warning,
		"Make room there, or set snapshot.scratch to a directory with more: no backup can be verified or restored " +
			"without it."},
	{AsideLarge, areaDisks, Warning,
		"`holdfast status` lists it with what is deleted by itself and when (restore.reclaim-after); delete the rest by " +
			"hand if nobody needs it."},

	{DatabaseFull, areaDatabases, Warning, "Delete keys, or raise etcd.quota-backend-bytes on all nodes."},
	{DatabaseGrows, areaDatabases, Warning, "Find out what grows, or raise etcd.quota-backend-bytes on all nodes."},
	{DefragFails, areaDatabases, Warning, "Fix what the text names."},
	{DefragPaused, areaDatabases, Warning, "`holdfast resume`."},

	{CertificateEnds, areaCertificates, Warning,
		"Put a new certificate in the place of the old one: it is read again at each handshake, but for those of " +
			"authorities, which need a restart."},
	{CertificateEnded, areaCertificates, Critical, "Put a new certificate in the place of the old one."},
	{CertificateFails, areaCertificates, Warning, "Fix what the text names; it is retried automatically."},
	{FileUnread, areaCertificates, Warning, "Make the file readable by holdfast's user, or correct the configuration."},
	{SecretOpen, areaCertificates, Warning, "`chmod o= FILE`, and replace the key if others have accounts there."},
	{AuthorityFails, areaCertificates, Warning, "Fix what the text names."},
	{AuthorityOpen, areaCertificates, Warning, "`holdfast tls rotate-ca`, and delete the older objects when it is over."},
	{AuthorityRotation, areaCertificates, Info,
		"`holdfast tls show` says what it waits for, what comes next, and which clients use old certificates (docs/tls.md)."},
	{RotationWaits, areaCertificates, Warning,
		"Bring the member back that the text names, or replace it. The next step is retried automatically."},
	{BundleDue, areaCertificates, Warning,
		"Give clients the output of `holdfast tls bundle` (kube-apiserver needs a restart), then run `holdfast tls " +
			"rotate-ca --now`."},
	{ClientsOld, areaCertificates, Warning,
		"Give them new ones (`holdfast tls client NAME --to DIR`), then run `holdfast tls rotate-ca --drop-old`."},
	{ClientEnds, areaCertificates, Warning,
		"Issue another one: `holdfast tls client NAME --to DIR` (with --renew in place), or `tls observer` or `tls " +
			"operator NAME --to FILE`; `holdfast tls forget NAME` if nobody needs it."},
	{Insecure, areaCertificates, Warning, "Set tls.mode, and remove tls.insecure."},

	{BackupFails, areaBackups, Degrading, "Fix what the text names; `holdfast snapshot save` tries at once."},
	{BackupOverdue, areaBackups, Degrading, "`holdfast snapshot save`, which says what is wrong."},
	{BackupUnknown, areaBackups, Warning, "`holdfast status --why` says why there is no leader, if there is none."},
	{BackupNone, areaBackups, Degrading, "`holdfast snapshot save`, and see snapshot.every."},
	{BackupUnwanted, areaBackups, Warning, "Set snapshot.every, unless backups are made in another way."},
	{BackupBad, areaBackups, Degrading,
		"`holdfast snapshot save` makes a newer one; `holdfast snapshot verify NAME` and `holdfast snapshot drill NAME` " +
			"prove this one again."},
	{BackupBroken, areaBackups, Warning, "`holdfast snapshot verify NAME` proves one; delete what cannot be used."},
	{BackupUnproven, areaBackups, Warning, "`holdfast snapshot verify NAME` records a new result."},
	{BackupForeign, areaBackups, Warning,
		"Give each cluster its own store or prefix; foreign ones are never pruned, and restored only by force."},
	{BackupLeft, areaBackups, Warning, "`holdfast snapshot prune` removes them."},
	{BackupSpooled, areaBackups, Warning, "Find out why: `holdfast status`, and the log."},
	{StoreSilent, areaBackups, Warning, "Fix what the text names."},
	{DrillFails, areaBackups, Degrading,
		"`holdfast snapshot save`, and `holdfast snapshot drill` for the new one; do not rely on the old one."},
	{DrillUntried, areaBackups, Warning, "Fix what the text names; `holdfast snapshot drill` tries at once."},
	{PruneFails, areaBackups, Warning, "Fix what the text names."},

	{GossipSeed, areaGossip, Warning, "Bring it back, or remove it from gossip.seeds."},
	{GossipKey, areaGossip, Warning,
		"Give both the same authorities (without TLS: the same gossip.key-file), or keep the stranger away."},
	{GossipStranger, areaGossip, Warning, "Correct its seeds or cluster.name, or keep it away."},
	{GossipUDP, areaGossip, Warning, "Open the gossip port for UDP."},
	{GossipOwn, areaGossip, Degrading, "Fix what the text names."},
	{NodeTwin, areaGossip, Warning, "Give each node its own node.name."},

	{VolumeTrouble, areaVolumes, Warning, "Fix what the text names; `holdfast volume doctor` checks everything."},

	{SlotsDiffer, areaConfig, Warning, "Give all nodes the same cluster.slots (docs/resize.md)."},
	{PeerURLDiffer, areaConfig, Warning,
		"Set etcd.peer-url to what the finding names, or end the change (docs/tls.md#from-http-to-https)."},
	{AuthFails, areaConfig, Warning, "Correct what the text names."},

	{Paused, areaOperator, Info, "`holdfast resume`."},
	{LockLong, areaOperator, Warning, "Finish what the text names."},
	{Drained, areaOperator, Degrading, "`holdfast undrain` on that node."},

	{EndpointStale, areaKubernetes, Degrading,
		"`holdfast doctor --fix` deletes it; an API server that lives writes its own again within seconds."},
	{EventsStale, areaKubernetes, Warning, "`kubectl delete events` removes them; they only take room."},
}
