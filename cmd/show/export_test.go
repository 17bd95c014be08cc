package show

// What is part of the status is tested by itself.
var (
	BackupText  = backupText
	RestoreText = writeRestore
	ProvenText  = provenText
)
