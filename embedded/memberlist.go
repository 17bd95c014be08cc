package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/plan"
)

// MemberList returns the member list of a data directory on which no etcd runs, as last applied there, sorted by ID.
// Entries of the log that are not applied yet may change it. MemberList changes nothing.
func (d Disk) MemberList(dir string) (list []plan.MemberInfo, err error) {
	err = viewDatabase(DatabasePath(dir), func(tx *bolt.Tx) error {
		b := tx.Bucket(schema.Members.Name())
		if b == nil {
			return errors.New("it lists no members")
		}
		return b.ForEach(func(_, text []byte) error {
			var m membership.Member
			if err := json.Unmarshal(text, &m); err != nil {
				return err
			}
			list = append(list, d.Names.listed(&m))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the member list in %s: %w", dir, err)
	}
	slices.SortFunc(list, func(a, b plan.MemberInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
