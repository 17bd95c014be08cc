package snapshot

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	freelistPage = 0x10
	noFreelist   = math.MaxUint64 // as page number: no freelist is stored, as in etcd's databases
	manyFree     = 0xffff         // as count: the real count is the first number in the list
)

// freelist checks the list of free pages, if one is stored. A program that opens the database to write trusts it: it
// would overwrite a page of the tree that is in the list, and allocate memory for a count beyond the page. Call it
// after the tree was walked.
func (p *pages) freelist() error {
	id := p.freelistAt()
	if id == noFreelist {
		return nil
	}
	page, err := p.take(id)
	if err != nil {
		return fmt.Errorf("list of free pages: %w", err)
	}
	if kind := binary.NativeEndian.Uint16(page[8:]); kind != freelistPage {
		return fmt.Errorf("list of free pages: page %d: flags are %#x", id, kind)
	}
	count, list := uint64(binary.NativeEndian.Uint16(page[10:])), page[headerSize:]
	if count == manyFree {
		count, list = binary.NativeEndian.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return fmt.Errorf("list of free pages: page %d: no room for %d numbers in %d bytes", id, count, len(list))
	}
	for i := range count {
		if err := p.mark(binary.NativeEndian.Uint64(list[i*8:])); err != nil {
			return fmt.Errorf("list of free pages: %w", err)
		}
	}
	return nil
}

// freelistAt returns the page of the freelist from the meta page that bbolt uses: of the sound ones, that of the last
// transaction.
func (p *pages) freelistAt() uint64 {
	at, last := uint64(noFreelist), uint64(0)
	for i := range 2 {
		meta := p.data[i*p.size+headerSize:][:metaSize]
		if tx := binary.NativeEndian.Uint64(meta[48:]); soundMeta(meta) && (at == noFreelist || tx > last) {
			at, last = binary.NativeEndian.Uint64(meta[32:]), tx
		}
	}
	return at
}
