package health

import "slices"

// Code names a kind of finding. It never changes, so that alerts and scripts can rely on it.
type Code string

// areas are what a cluster is examined for, in the order of `holdfast doctor`.
var areas = []string{
	areaQuorum, areaNodes, areaSlots, areaMembers, areaAlarms, areaGenerations, areaVersions, areaClocks, areaDisks,
	areaDatabases,
	areaCertificates, areaBackups, areaGossip, areaVolumes, areaConfig, areaOperator, areaKubernetes,
}

// alone are the areas that can be examined where no node runs.
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

// Kind is a kind of finding: the row of the table in docs/findings.md.
type Kind struct {
	Code     Code
	Area     string
	Severity Severity // as a rule; a finding may say another one
	Do       string
}

// The codes. Kinds explains them.
const (
	NotExamined Code = "not-examined"

	QuorumLost     Code = "no-quorum"
	Electing       Code = "electing"
	LeaderDisputed Code = "leader-disputed"

	NodeSilent   Code = "node-silent"
	NodeLost     Code = "node-lost"
	ActionFails  Code = "action-fails"
	Bug          Code = "bug"
	LoopStuck    Code = "loop-stuck"
	NamesUnknown Code = "names-unresolved"
	NamesStale   Code = "names-stale"

	SlotDown     Code = "slot-down"
	SlotUnseen   Code = "slot-unseen"
	SlotForeign  Code = "slot-foreign"
	SlotReleased Code = "slot-released"
	SlotLearner  Code = "slot-learner"
	SlotTwice    Code = "slot-held-twice"
	Stalled      Code = "member-stalled"

	MemberMissing  Code = "member-missing"
	MemberCutOff   Code = "member-cut-off"
	MemberStale    Code = "member-stale"
	MemberUnnamed  Code = "member-unnamed"
	LearnerSlow    Code = "learner-slow"
	AlarmNoSpace   Code = "alarm-nospace"
	AlarmCorrupt   Code = "alarm-corrupt"
	MemberDiffers  Code = "member-differs"
	AlarmUnknown   Code = "alarm-unknown"
	TwoClusters    Code = "two-clusters"
	Conflict       Code = "generation-conflict"
	StoreUnread    Code = "store-unread"
	PeerUnread     Code = "peer-unread"
	RestoreOpen    Code = "restore-open"
	RestoreStuck   Code = "restore-stuck"
	RestoreRefused Code = "restore-refused"
	BackupUnmade   Code = "backup-before-restore"

	VersionsDiffer Code = "versions-differ"
	ClusterVersion Code = "cluster-version-old"
	DowngradeOpen  Code = "downgrade-open"
	ClockApart     Code = "clock-apart"
	ClockStore     Code = "clock-off-store"

	DiskSlow       Code = "disk-slow"
	DiskUnmeasured Code = "disk-unmeasured"
	DiskLow        Code = "disk-space-low"
	DiskFull       Code = "disk-space-critical"
	DiskReserve    Code = "disk-reserve-used"
	DiskUnread     Code = "disk-space-unknown"
	SpoolLow       Code = "spool-space-low"
	ScratchLow     Code = "scratch-space-low"
	AsideLarge     Code = "set-aside-large"

	DatabaseFull  Code = "database-full"
	DatabaseGrows Code = "database-grows"
	DefragFails   Code = "defragmentation-fails"
	DefragPaused  Code = "defragmentation-paused"

	CertificateEnds   Code = "certificate-ends"
	CertificateEnded  Code = "certificate-ended"
	CertificateFails  Code = "certificate-fails"
	FileUnread        Code = "file-unreadable"
	SecretOpen        Code = "secret-open"
	AuthorityFails    Code = "authority-fails"
	AuthorityOpen     Code = "authority-readable"
	AuthorityRotation Code = "authority-rotation"
	RotationWaits     Code = "authority-rotation-waits"
	BundleDue         Code = "authority-bundle-due"
	ClientsOld        Code = "clients-old-authority"
	ClientEnds        Code = "client-certificate-ends"
	Insecure          Code = "tls-insecure"

	BackupFails    Code = "backup-fails"
	BackupOverdue  Code = "backup-overdue"
	BackupUnknown  Code = "backup-schedule-unknown"
	BackupNone     Code = "backup-none"
	BackupUnwanted Code = "backup-unplanned"
	BackupBad      Code = "backup-newest-bad"
	BackupBroken   Code = "backup-damaged"
	BackupUnproven Code = "backup-proof-unknown"
	BackupForeign  Code = "backup-foreign"
	BackupLeft     Code = "backup-unfinished"
	BackupSpooled  Code = "backup-spooled"
	StoreSilent    Code = "backup-store-silent"
	DrillFails     Code = "drill-failed"
	DrillUntried   Code = "drill-untried"
	PruneFails     Code = "prune-fails"

	GossipSeed     Code = "gossip-seed"
	GossipKey      Code = "gossip-key"
	GossipStranger Code = "gossip-stranger"
	GossipUDP      Code = "gossip-udp"
	GossipOwn      Code = "gossip-fails"
	NodeTwin       Code = "node-name-twice"

	VolumeTrouble Code = "volume-trouble"
	SlotsDiffer   Code = "slots-differ"
	PeerURLDiffer Code = "peer-url-differs"
	AuthFails     Code = "auth-fails"

	Paused     Code = "paused"
	LockLong   Code = "lock-long"
	Drained    Code = "drained"
	LostBlocks Code = "lost-node-blocks"

	EndpointStale Code = "kubernetes-endpoint-stale"
	EventsStale   Code = "kubernetes-events-stale"
)

// wide are the kinds that only a look at several nodes, at the whole store, or at other series finds: no node has a
// series of them.
var wide = []Code{NotExamined, LeaderDisputed, NodeSilent, NodeLost, LostBlocks, MemberDiffers, SlotDown, SlotUnseen,
	SlotForeign, SlotLearner, SlotTwice, TwoClusters, VersionsDiffer, ClusterVersion,
	ClockApart, DiskSlow, DiskUnmeasured, BackupUnknown, BackupNone, BackupBroken, BackupUnproven, BackupForeign,
	BackupLeft, EndpointStale, EventsStale}

// Local reports whether a node finds it by itself, see [NodeStatus.Local].
func (k Kind) Local() bool { return !slices.Contains(wide, k.Code) }

// KindOf is the kind with a code, which there must be.
func KindOf(c Code) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Code == c })
	if i < 0 {
		panic("health: no kind of finding has the code " + c)
	}
	return Kinds[i]
}
