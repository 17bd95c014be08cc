package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/maphash"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// kvHash computes the answer that etcd's HashKV would give after the database is opened (server/storage/mvcc: hash.go,
// kvHasher; kvstore.go, hashByRev; key_index.go, keep).
//
// It is the CRC-32C of the bucket's name and its entries, with exceptions up to the compacted revision: a tombstone at
// exactly that revision is left out, and so is any entry that is not the newest of its key, unless there is no live key
// at all. So an entry that the compaction has kept is left out as soon as its key is written again. That is why the
// keys written since must be known before the first entry is hashed.
type kvHash struct {
	compacted int64
	known     bool
	sum       uint32 // with the exceptions
	all       uint32 // only without the tombstones at the compacted revision, until a live key is found
	seed      maphash.Seed
	newer     *keySet // the keys written since the compaction
	live      bool    // there is a live key that was not written since
}

// maxNewer limits newer, to 16 MiB. Two of a million keys have the same hash in one of eighteen million databases.
const maxNewer = 1 << 20

// newKVHash reads the entries after the compacted revision. finished says that no compaction is in progress.
func newKVHash(ctx context.Context, keys *bbolt.Bucket, compacted int64, finished bool) (*kvHash, error) {
	name := crc32.Checksum([]byte("key"), castagnoli)
	h := &kvHash{compacted: compacted, known: finished, sum: name, all: name, seed: maphash.MakeSeed(),
		newer: newKeySet(0)}
	if !finished || compacted < 0 {
		return h, nil
	}
	// One transaction may write several keys, so this is a guess.
	guess := min(maxNewer, keys.Tx().Size()/512)
	if k, _ := keys.Cursor().Last(); len(k) >= 8 {
		guess = min(guess, max(0, int64(binary.BigEndian.Uint64(k))-compacted))
	}
	h.newer = newKeySet(int(guess))
	from := binary.BigEndian.AppendUint64(nil, uint64(compacted)+1)
	err := entries(ctx, keys.Cursor(), from, func(k, v []byte, _ int64) error {
		if !h.known {
			return nil
		}
		id, err := h.id(v)
		h.newer.put(id, !tombstone(k))
		h.known = h.newer.used <= maxNewer
		return err
	})
	return h, err
}

// add adds an entry; the entries come in the order of the bucket.
func (h *kvHash) add(k, v []byte, rev int64) error {
	if !h.known || rev == h.compacted && tombstone(k) {
		return nil
	}
	if !h.live {
		h.all = crc32.Update(crc32.Update(h.all, castagnoli, k), castagnoli, v)
	}
	if rev <= h.compacted {
		id, err := h.id(v)
		if err != nil {
			return err
		}
		if h.newer.has(id) {
			return nil
		}
		h.live = true
	}
	h.sum = crc32.Update(crc32.Update(h.sum, castagnoli, k), castagnoli, v)
	return nil
}

// result returns the hash, or 0 if it is not known.
func (h *kvHash) result() uint32 {
	if !h.known {
		return 0
	}
	if !h.live && !h.newer.live() {
		return h.all
	}
	return h.sum
}

// id returns an ID for a key. v is an mvccpb.KeyValue, whose first field is the key (api/mvccpb/kv.proto). A restore
// that raised the revision, by holdfast or etcdutl, leaves an entry without a value: to etcd it is a key with an empty
// name.
func (h *kvHash) id(v []byte) (uint64, error) {
	if len(v) == 0 {
		return maphash.Bytes(h.seed, nil), nil
	}
	number, kind, n := protowire.ConsumeTag(v)
	if n > 0 && number == 1 && kind == protowire.BytesType {
		if key, n := protowire.ConsumeBytes(v[n:]); n > 0 {
			return maphash.Bytes(h.seed, key), nil
		}
	}
	return 0, fmt.Errorf("entry of bucket key holds no key but %.40x", v)
}

// tombstone reports whether an entry of bucket "key" marks the deletion of a key.
func tombstone(k []byte) bool { return bytes.HasSuffix(k, []byte("t")) && len(k) == 18 }
