package coordinator

// content is what this package has written on a volume.
type content struct {
	ledger ledgerV1
	found  bool   // the ledger exists
	broken string // why it cannot be read
	built  string // ID of the proposal whose directory lies on the volume
}

// readContent reads what is on a volume.
func readContent(path string) content {
	var is content
	var err error
	if is.ledger, is.found, err = readLedger(path); err != nil {
		is.broken = err.Error()
	}
	if is.built, err = findBuilt(path, is.ledger.Prepared); err != nil {
		is.broken = err.Error()
	}
	return is
}
