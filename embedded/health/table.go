package health

import (
	"slices"
)

// Kinds has all kinds of findings, by area. docs/findings.md says what each means, and where it comes from.
var Kinds []Kind

// local adds a kind of finding that a node finds by itself (see [NodeStatus.Local]), and returns its code.
func local(code Code, area string, severity Severity, do string) Code {
	Kinds = append(Kinds, Kind{Code: code, Area: area, Severity: severity, Do: do})
	return code
}

// wide adds a kind of finding that needs several nodes, the whole store, or other series. No node has a series of it.
func wide(code Code, area string, severity Severity, do string) Code {
	local(code, area, severity, do)
	Kinds[len(Kinds)-1].wide = true
	return code
}

var (
	NotExamined = wide("not-examined", "", Warning, "Fix what the text names, and check again.")

	QuorumLost = local("no-quorum", areaQuorum, Critical,
		"Bring the missing nodes back. If their disks are gone for good: `holdfast recover` shows what is left.")
	Electing = local("electing", areaQuorum, Critical,
		"Wait some seconds; it becomes no-quorum if the election does not end.")
	LeaderDisputed = wide("leader-disputed", areaQuorum, Degrading,
		"Look at the disk and the network of the other node.")

	NodeSilent = wide("node-silent", areaNodes, Warning, "Look at its log.")
	NodeEnded  = wide("node-ended", areaNodes, Degrading, "Fix what the text names, then start holdfast again.")
	NodeLost   = wide("node-lost", areaNodes, Warning,
		"Start it again, or give its volume to another machine; a blank disk for this slot is filled by the others.")
	LostBlocks = wide("lost-node-blocks", areaNodes, Degrading,
		"Bring its disk back, or `holdfast gossip forget NODE` if it is gone for good.")
	ActionFails = local("action-fails", areaNodes, Degrading,
		"Fix what the text names; `holdfast history` shows since when it fails.")
	Bug         = local("bug", areaNodes, Degrading, "Report it with the text and the log. The member keeps serving.")
	LoopStuck   = local("loop-stuck", areaNodes, Critical, "Restart the process; report it with the log.")
	FilesUsedUp = local("files-used-up", areaNodes, Degrading,
		"Find out which clients have so many connections (`ss -tnp`), or raise the limit (LimitNOFILE= of the unit, "+
			"`ulimit -n`) and restart the node.")
	NamesUnknown = local("names-unresolved", areaNodes, Degrading, "Remove what the text names.")
	NamesStale   = local("names-stale", areaNodes, Degrading,
		"Remove the line, or etcd-manager's whole block: it writes it again when it starts (docs/migrate.md).")

	SlotDown = wide("slot-down", areaSlots, Degrading,
		"Start its node, or give the slot to another machine: a blank disk there is filled by the others.")
	SlotUnseen = wide("slot-unseen", areaSlots, Warning,
		"Mend what findings about certificates or gossip name, if there are any. If not: open the gossip port (TCP) between "+
			"the nodes; give each node its own node.name.")
	SlotForeign = wide("slot-foreign", areaSlots, Warning,
		"Take the machine of that member over next, or give the others back (docs/migrate.md).")
	SlotReleased = wide("slot-released", areaSlots, Warning,
		"Release the next member, the leader last. To keep the cluster here, take the machine over again, and `holdfast "+
			"resume` when every member runs here.")
	SlotLearner = wide("slot-learner", areaSlots, Degrading, "Wait; the leader promotes it when it is in sync.")
	SlotTwice   = wide("slot-held-twice", areaSlots, Degrading,
		"Find out which one is right, and stop the other: `holdfast status` shows both.")
	Stalled = local("member-stalled", areaSlots, Degrading,
		"Look at the disk (`dmesg`, the cloud's console). If it does not come back, move the slot to another one; the "+
			"others serve meanwhile.")

	MemberMissing = local("member-missing", areaMembers, Degrading,
		"Start a node for it; `holdfast status --why` says what holds a node back that is there.")
	MemberCutOff = local("member-cut-off", areaMembers, Degrading,
		"Bring the missing members back before another one fails.")
	MemberStale = local("member-stale", areaMembers, Degrading,
		"The leader removes it by itself as soon as that is safe.")
	MemberUnnamed = local("member-unnamed", areaMembers, Info, "Wait a moment; if it stays so, look at its node's log.")
	LearnerSlow   = local("learner-slow", areaMembers, Degrading,
		"Look at the disk and the network between it and the leader; a learner counts for no quorum.")
	MemberDiffers = wide("member-differs", areaMembers, Critical,
		"Run `holdfast rejoin` on its node: its data is set aside, and it gets the others' data (docs/upkeep.md).")

	AlarmNoSpace = local("alarm-nospace", areaAlarms, Critical,
		"`holdfast status --why` says what the cure waits for; with upkeep.cure-nospace off, there is none "+
			"(docs/upkeep.md).")
	AlarmCorrupt = local("alarm-corrupt", areaAlarms, Critical,
		"`holdfast status` says which member differs (member-differs): run `holdfast rejoin` on its node, and `holdfast "+
			"etcdctl alarm disarm` when it serves again.")
	AlarmUnknown = local("alarm-unknown", areaAlarms, Critical, "See etcd's own documentation.")

	TwoClusters = wide("two-clusters", areaGenerations, Degrading, "Keep one of them away from this gossip.")
	Conflict    = local("generation-conflict", areaGenerations, Warning,
		"Find out where it comes from; the text says what to do.")
	StoreUnread = local("store-unread", areaGenerations, Warning,
		"Look at the object that the text names, or use a store that honors If-None-Match.")
	PeerUnread  = local("peer-unread", areaGenerations, Warning, "Finish the upgrade; look at that node.")
	RestoreOpen = local("restore-open", areaGenerations, Degrading,
		"Follow it with `holdfast status`; if it is no longer wanted, `holdfast restore --abort`.")
	RestoreStuck = local("restore-stuck", areaGenerations, Degrading,
		"Fix what the text names, or `holdfast restore --abort`.")
	RestoreRefused = local("restore-refused", areaGenerations, Warning,
		"Use `holdfast restore`, or fix what the text names.")
	BackupUnmade = local("backup-before-restore", areaGenerations, Degrading, "Fix what the text names.")

	VersionsDiffer = wide("versions-differ", areaVersions, Warning, "Finish the upgrade.")
	ClusterVersion = wide("cluster-version-old", areaVersions, Warning,
		"Wait a minute after an upgrade; if it stays so, look at the leader's log.")
	DowngradeOpen = local("downgrade-open", areaVersions, Warning,
		"Continue as docs/upgrade.md says, or `holdfast downgrade --cancel`.")

	ClockApart = wide("clock-apart", areaClocks, Warning, "Have both follow the same time servers (chrony).")
	ClockStore = local("clock-off-store", areaClocks, Warning, "Have the node follow a time server (chrony).")

	DiskSlow = wide("disk-slow", areaDisks, Warning,
		"Give etcd a faster disk, or one that it does not share; `etcd_disk_*` of /metrics has the figures.")
	DiskUnmeasured = wide("disk-unmeasured", areaDisks, Info, "Check again when etcd has been written to for a while.")
	DiskLow        = local("disk-space-low", areaDisks, Warning,
		"Make the volume larger, or delete what is not etcd's.")
	DiskFull = local("disk-space-critical", areaDisks, Degrading,
		"Make the volume larger, or delete what is not etcd's.")
	DiskReserve = local("disk-reserve-used", areaDisks, Critical,
		"Make the volume larger, or delete what is not etcd's: writes resume once there is enough room (docs/upkeep.md).")
	DiskUnread = local("disk-space-unknown", areaDisks, Warning, "Look at the volume.")
	SpoolLow   = local("spool-space-low", areaDisks, Warning,
		"Make room there, or set snapshot.spool to a directory with more: backups fail without it.")
	ScratchLow = local("scratch-space-low", areaDisks, Warning,
		"Make room there, or set snapshot.scratch to a directory with more: no backup can be verified or restored "+
			"without it.")
	AsideLarge = local("set-aside-large", areaDisks, Warning,
		"`holdfast status` lists it with what is deleted by itself and when (restore.reclaim-after); delete the rest by "+
			"hand if nobody needs it.")

	DatabaseFull = local("database-full", areaDatabases, Warning,
		"Delete keys, or raise etcd.quota-backend-bytes on all nodes.")
	DatabaseGrows = local("database-grows", areaDatabases, Warning,
		"Find out what grows, or raise etcd.quota-backend-bytes on all nodes.")
	DefragFails  = local("defragmentation-fails", areaDatabases, Warning, "Fix what the text names.")
	DefragPaused = local("defragmentation-paused", areaDatabases, Warning, "`holdfast resume`.")

	CertificateEnds = local("certificate-ends", areaCertificates, Warning,
		"Put a new certificate in the place of the old one: it is read again at each handshake.")
	CertificateEnded = local("certificate-ended", areaCertificates, Critical,
		"Put a new certificate in the place of the old one.")
	CertificateFails = local("certificate-fails", areaCertificates, Warning,
		"Fix what the text names; it is retried automatically.")
	FileUnread = local("file-unreadable", areaCertificates, Warning,
		"Make the file readable by holdfast's user, or correct the configuration.")
	SecretOpen = local("secret-open", areaCertificates, Warning,
		"`chmod go= FILE`, and replace the key if others have accounts there.")
	AuthorityFails = local("authority-fails", areaCertificates, Warning, "Fix what the text names.")
	AuthorityOpen  = local("authority-readable", areaCertificates, Warning,
		"`holdfast tls rotate-ca`, and delete the older objects when it is over.")
	AuthorityRotation = local("authority-rotation", areaCertificates, Info,
		"`holdfast tls show` says what it waits for, what comes next, and which clients use old certificates (docs/tls.md).")
	RotationWaits = local("authority-rotation-waits", areaCertificates, Warning,
		"Bring the member back that the text names, or replace it. The next step is retried automatically.")
	BundleDue = local("authority-bundle-due", areaCertificates, Warning,
		"Give clients the output of `holdfast tls bundle` (kube-apiserver needs a restart), then run `holdfast tls "+
			"rotate-ca --now`.")
	ClientsOld = local("clients-old-authority", areaCertificates, Warning,
		"Give them new ones (`holdfast tls client NAME --to DIR`), then run `holdfast tls rotate-ca --drop-old`.")
	ClientEnds = local("client-certificate-ends", areaCertificates, Warning,
		"Issue another one: `holdfast tls client NAME --to DIR` (with --renew in place), or `tls observer` or `tls "+
			"operator NAME --to FILE`; `holdfast tls forget NAME` if nobody needs it.")
	Insecure = local("tls-insecure", areaCertificates, Warning, "Set tls.mode, and remove tls.insecure.")

	BackupFails = local("backup-fails", areaBackups, Degrading,
		"Fix what the text names; `holdfast snapshot save` tries at once.")
	BackupOverdue = local("backup-overdue", areaBackups, Degrading,
		"`holdfast snapshot save`, which says what is wrong.")
	BackupUnknown = wide("backup-schedule-unknown", areaBackups, Warning,
		"`holdfast status --why` says whether there is a leader, and if not, why.")
	BackupNone     = wide("backup-none", areaBackups, Degrading, "`holdfast snapshot save`, and see snapshot.every.")
	BackupUnwanted = local("backup-unplanned", areaBackups, Warning,
		"Set snapshot.every, unless backups are made in another way.")
	BackupBad = local("backup-newest-bad", areaBackups, Degrading,
		"`holdfast snapshot save` makes a newer one; `holdfast snapshot verify NAME` and `holdfast snapshot drill NAME` "+
			"prove this one again.")
	BackupDoubt = local("backup-in-doubt", areaBackups, Warning,
		"`holdfast snapshot verify NAME` proves it again; if it is damaged for good, `holdfast snapshot delete NAME`; if it "+
			"is gone for good, `holdfast snapshot save`.")
	BackupBroken = wide("backup-damaged", areaBackups, Warning,
		"`holdfast snapshot verify NAME` proves one; delete what cannot be used.")
	BackupUnproven = wide("backup-proof-unknown", areaBackups, Warning,
		"`holdfast snapshot verify NAME` records a new result.")
	BackupForeign = wide("backup-foreign", areaBackups, Warning,
		"Give each cluster its own store or prefix; foreign ones are never pruned, and restored only by force.")
	BackupLeft    = wide("backup-unfinished", areaBackups, Warning, "`holdfast snapshot prune` removes them.")
	BackupSpooled = local("backup-spooled", areaBackups, Warning, "Find out why: `holdfast status`, and the log.")
	StoreSilent   = local("backup-store-silent", areaBackups, Warning, "Fix what the text names.")
	DrillFails    = local("drill-failed", areaBackups, Degrading,
		"`holdfast snapshot save`, and `holdfast snapshot drill` for the new one; do not rely on the old one.")
	DrillUntried = local("drill-untried", areaBackups, Warning,
		"Fix what the text names; `holdfast snapshot drill` tries at once.")
	PruneFails = local("prune-fails", areaBackups, Warning, "Fix what the text names.")

	GossipSeed = local("gossip-seed", areaGossip, Warning, "Bring it back, or correct or remove it in gossip.seeds.")
	GossipKey  = local("gossip-key", areaGossip, Warning,
		"Give both the same authorities (without TLS: the same gossip.key-file), or keep the stranger away.")
	GossipStranger = local("gossip-stranger", areaGossip, Warning,
		"Correct its seeds or cluster.name, or keep it away.")
	GossipOwn = local("gossip-fails", areaGossip, Degrading, "Fix what the text names.")
	NodeTwin  = local("node-name-twice", areaGossip, Warning, "Give each node its own node.name.")

	VolumeTrouble = local("volume-trouble", areaVolumes, Warning,
		"Fix what the text names; with EBS volumes, `holdfast volume doctor` checks everything.")

	ConfigWrong = local("configuration-wrong", areaConfig, Warning,
		"Correct the file before the next restart; `holdfast config check FILE` reports all errors at once.")
	RestartNeeded = local("restart-needed", areaConfig, Warning,
		"Restart the node, or take the change back. Its log has the old and the new values.")
	SlotsDiffer = local("slots-differ", areaConfig, Warning,
		"Give all nodes the same cluster.slots (docs/resize.md).")
	PeerURLDiffer = local("peer-url-differs", areaConfig, Warning,
		"Set etcd.peer-url to what the finding names, or end the change (docs/tls.md#from-http-to-https).")
	AuthFails = local("auth-fails", areaConfig, Warning, "Correct what the text names.")

	Paused   = local("paused", areaOperator, Info, "`holdfast resume`.")
	LockLong = local("lock-long", areaOperator, Warning, "Finish what the text names.")
	Drained  = local("drained", areaOperator, Degrading, "`holdfast undrain` on that node.")

	EndpointStale = wide("kubernetes-endpoint-stale", areaKubernetes, Degrading,
		"`holdfast doctor --fix` deletes it; an API server that lives writes its own again within seconds.")
	EventsStale = wide("kubernetes-events-stale", areaKubernetes, Warning,
		"`kubectl delete events` removes them; they only take room.")
)

// Code identifies a kind of finding. It never changes, so that alerts and scripts can rely on it.
type Code string

// areas are the parts of a cluster that are examined, in the order of `holdfast doctor`.
var areas = []string{
	areaQuorum, areaNodes, areaSlots, areaMembers, areaAlarms, areaGenerations, areaVersions, areaClocks, areaDisks,
	areaDatabases,
	areaCertificates, areaBackups, areaGossip, areaVolumes, areaConfig, areaOperator, areaKubernetes,
}

// alone are the areas that can be examined when no node runs.
var alone = []string{areaCertificates, areaBackups}

const (
	areaQuorum       = "quorum"
	areaNodes        = "nodes"
	areaSlots        = "slots"
	areaMembers      = "members"
	areaAlarms       = "alarms"
	areaGenerations  = "generations"
	areaVersions     = "versions"
	areaClocks       = "clocks"
	areaDisks        = "disks"
	areaDatabases    = "databases"
	areaCertificates = "certificates"
	areaBackups      = "backups"
	areaGossip       = "gossip"
	areaVolumes      = "volumes"
	areaConfig       = "configuration"
	areaOperator     = "operator"
	areaKubernetes   = "kubernetes"
)

// Kind is a kind of finding: a row of the table in docs/findings.md.
type Kind struct {
	Code     Code
	Area     string
	Severity Severity // the default; a finding may have another one
	Do       string
	wide     bool
}

// Local reports whether a node finds it by itself, see [NodeStatus.Local].
func (k Kind) Local() bool { return !k.wide }

// KindOf returns the kind with a code. It panics if there is none.
func KindOf(c Code) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Code == c })
	if i < 0 {
		panic("health: no kind of finding has the code " + c)
	}
	return Kinds[i]
}
