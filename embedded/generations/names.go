package generations

import (
	"crypto/sha256"
	"fmt"
)

// names builds the names of a cluster's objects in the store.
type names struct {
	Cluster string // cluster.name
}

func (n names) prefix() string { return "holdfast/" + n.Cluster + "/" }

func (n names) recordName(generation uint64) string {
	return fmt.Sprintf("%srecord-%06d.json", n.prefix(), generation)
}

func (n names) restoreName(generation uint64, attempt int) string {
	return fmt.Sprintf("%srestore-%06d-%02d.json", n.prefix(), generation, attempt)
}

func (n names) outcomeName(generation uint64, attempt int) string {
	return fmt.Sprintf("%soutcome-%06d-%02d.json", n.prefix(), generation, attempt)
}

func (n names) besideName() string { return n.prefix() + "beside.json" }

func (n names) attestationName(generation uint64) string {
	return fmt.Sprintf("%sproof-%06d.json", n.prefix(), generation)
}

// BeaconName returns the name of the beacon in the store.
func (n names) BeaconName() string { return n.prefix() + "beacon.json" }

// HereName returns the name of the object in which a node puts its nonce.
func (n names) HereName(node string) string {
	return fmt.Sprintf("%s%s%x.json", n.prefix(), hereDir, sha256.Sum256([]byte(node)))
}

// returnedName returns the name of the mark that a cluster was given back. Clusters of one name have different marks.
func (n names) returnedName(id string) string { return n.prefix() + returnedPrefix + id + ".json" }
