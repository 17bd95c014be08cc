package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
)

// Page layout of bbolt (internal/common/page.go, bucket.go), which has not changed since boltdb 1.0: a header of
// id 8, flags 2, count 2, overflow 4 bytes, then count elements of 16 bytes. Numbers are in the machine's byte order.
const (
	headerSize  = 16
	elementSize = 16
	magic       = 0xed0cdaed // at the start of a meta page
	branchPage  = 0x01
	leafPage    = 0x02
	bucketLeaf  = 0x01 // flag of a leaf element whose value is a bucket: root page 8, sequence 8 bytes
	maxPage     = 1 << 16
	metaSize    = 64 // without the header of a meta page
	maxDepth    = 64 // pages from the root to a leaf, nested buckets included; etcd's have under 10
)

// pages is a walk through all pages of a database that can be reached from its buckets.
type pages struct {
	data []byte
	size int      // of a page
	seen []uint64 // one bit per page
}

// checkPages returns an error unless all pages reached from the root bucket are sound: within the file, of a type that
// a tree has, under their own number, reached once, with keys in order and within the bounds of the page above. These
// are the faults that bbolt's Tx.Check finds, except that Tx.Check also demands that all unreached pages are free. Here
// only a stored list of free pages is compared. The work is bounded by the size of the file, even of a crafted one. The
// caller guards against a fault in data, which is mapped.
func checkPages(data []byte, pageSize int, root uint64) error {
	size := int64(len(data))
	if pageSize < 512 || pageSize > maxPage || pageSize&(pageSize-1) != 0 || size < 2*int64(pageSize) ||
		size%int64(pageSize) != 0 {
		return fmt.Errorf("page size is %d in a file of %d bytes", pageSize, size)
	}
	count := int(size) / pageSize
	p := &pages{data: data, size: pageSize, seen: make([]uint64, count/64+1)}
	if err := p.tree(root, nil, nil, 0); err != nil {
		return err
	}
	return p.freelist()
}

// tree checks the page id and all below it. Its keys must be at least low, and less than high unless high is nil.
func (p *pages) tree(id uint64, low, high []byte, depth int) error {
	page, err := p.take(id)
	if err != nil {
		return err
	}
	if err := p.node(page, low, high, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// take returns the page id with its overflow pages. None of them may have been reached before.
func (p *pages) take(id uint64) ([]byte, error) {
	if err := p.mark(id); err != nil {
		return nil, err
	}
	count := uint64(len(p.data) / p.size)
	page := p.data[id*uint64(p.size):]
	overflow := uint64(binary.NativeEndian.Uint32(page[12:]))
	if overflow >= count-id {
		return nil, fmt.Errorf("page %d: overflows by %d pages beyond the last, %d", id, overflow, count-1)
	}
	for i := id + 1; i <= id+overflow; i++ {
		if err := p.mark(i); err != nil {
			return nil, err
		}
	}
	if got := binary.NativeEndian.Uint64(page); got != id {
		return nil, fmt.Errorf("page %d: says it is page %d", id, got)
	}
	return page[:(overflow+1)*uint64(p.size)], nil
}

// mark records that a page was reached, in the tree or as a free one. It returns an error if it was reached before.
func (p *pages) mark(id uint64) error {
	if count := uint64(len(p.data) / p.size); id < 2 || id >= count { // 0 and 1 are the meta pages
		return fmt.Errorf("page %d: not among the pages 2 to %d", id, count-1)
	}
	if p.seen[id/64]&(1<<(id%64)) != 0 {
		return fmt.Errorf("page %d: reached twice", id)
	}
	p.seen[id/64] |= 1 << (id % 64)
	return nil
}

// node checks the elements of a page and all below it. The page may be a value: that of a small bucket.
func (p *pages) node(page, low, high []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("more than %d pages deep", maxDepth)
	}
	if len(page) < headerSize {
		return fmt.Errorf("no room for a header in %d bytes", len(page))
	}
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if kind != branchPage && kind != leafPage || kind == branchPage && count == 0 {
		return fmt.Errorf("flags are %#x, count is %d: neither a branch nor a leaf", kind, count)
	}
	if len(page) < headerSize+count*elementSize {
		return fmt.Errorf("no room for %d elements in %d bytes", count, len(page))
	}
	room := len(page) - headerSize - count*elementSize
	for i := range count {
		key, value, err := element(page, i)
		if err != nil {
			return err
		}
		// In a database of bbolt no two elements share bytes. In a forged page a thousand elements could have the same value,
		// a bucket whose thousand elements have the same value, and so on: the walk would never end.
		if room -= len(key) + len(value); room < 0 {
			return fmt.Errorf("element %d: the elements share bytes: together they have %d more than the page", i, -room)
		}
		if order := bytes.Compare(low, key); order > 0 || order == 0 && i > 0 {
			return fmt.Errorf("key %x of element %d must follow %x", key, i, low)
		}
		if high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("key %x of element %d must precede %x", key, i, high)
		}
		at := page[headerSize+i*elementSize:]
		switch {
		case kind == branchPage:
			next := high
			if i+1 < count {
				if next, _, err = element(page, i+1); err != nil {
					return err
				}
			}
			err = p.tree(binary.NativeEndian.Uint64(at[8:]), key, next, depth+1)
		case binary.NativeEndian.Uint32(at)&bucketLeaf != 0:
			err = p.bucket(value, depth+1)
		}
		if err != nil {
			return err
		}
		low = key
	}
	return nil
}

// bucket checks the bucket in a leaf element.
func (p *pages) bucket(value []byte, depth int) error {
	if len(value) < 16 {
		return fmt.Errorf("bucket of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.tree(root, nil, nil, depth)
	}
	return p.node(value[16:], nil, nil, depth)
}

// element returns the key of element i of a page, and its value if the page is a leaf.
func element(page []byte, i int) (key, value []byte, err error) {
	at := headerSize + i*elementSize
	var pos, keySize, valueSize uint64
	if e := page[at:]; binary.NativeEndian.Uint16(page[8:]) == branchPage {
		pos, keySize = uint64(binary.NativeEndian.Uint32(e)), uint64(binary.NativeEndian.Uint32(e[4:]))
	} else {
		pos, keySize = uint64(binary.NativeEndian.Uint32(e[4:])), uint64(binary.NativeEndian.Uint32(e[8:]))
		valueSize = uint64(binary.NativeEndian.Uint32(e[12:]))
	}
	start := uint64(at) + pos
	if end := start + keySize + valueSize; end > uint64(len(page)) {
		return nil, nil, fmt.Errorf("element %d ends at byte %d of %d", i, end, len(page))
	}
	return page[start : start+keySize], page[start+keySize : start+keySize+valueSize], nil
}

// databaseSize returns the size of the database at the start of r, from its first meta page: bbolt copies that number
// of pages (Tx.WriteTo), with the same meta page twice. It consumes nothing.
func databaseSize(r *bufio.Reader) (int64, error) {
	head, err := r.Peek(headerSize + metaSize)
	if err != nil {
		return 0, fmt.Errorf("read meta page: %w", err)
	}
	meta := head[headerSize:]
	pageSize, pages := binary.NativeEndian.Uint32(meta[8:]), binary.NativeEndian.Uint64(meta[40:])
	if !soundMeta(meta) {
		return 0, errors.New("it does not begin with a sound meta page: not a database of etcd")
	}
	if pageSize < 512 || pageSize > maxPage || pages < 2 || pages > 1<<40 {
		return 0, fmt.Errorf("meta page tells %d pages of %d bytes", pages, pageSize)
	}
	return int64(pages) * int64(pageSize), nil
}

// soundMeta reports whether the bytes after the header of a meta page have the right magic and checksum.
func soundMeta(meta []byte) bool {
	sum := fnv.New64a()
	sum.Write(meta[:metaSize-8])
	return binary.NativeEndian.Uint32(meta) == magic && binary.NativeEndian.Uint64(meta[metaSize-8:]) == sum.Sum64()
}

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
