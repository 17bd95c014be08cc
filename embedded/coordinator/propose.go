package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"holdfast/embedded/plan"
)

// proposalTime is how long a proposal stays open, by the store's time, unless a command says otherwise: of those
// that nodes make, nobody waits for the end. Within an hour a database of 8 GiB, the most that etcd's makers
// recommend, is fetched and built at 2.5 MB/s. What waits for longer waits for something else, such as room, and
// the writes since would be lost when that comes. What was prepared by then is thrown away, and the configuration
// may ask again, of what is known then.
const proposalTime = time.Hour

// NewRestore makes the proposal to continue from parent with a backup. attempts is how many proposals for that
// generation there were, last the last known revision of the cluster, and bump what the configuration wants at least.
func NewRestore(parent plan.Record, attempts int, b Backup, last, bump int64) plan.Restore {
	last = max(last, parent.Floor())
	r := proposal(parent, attempts)
	r.Backup, r.Digest, r.Revision, r.Bump = b.Name, b.Digest, b.Revision, max(bump, last-b.Revision+bump)
	return r
}

// proposal is one to end a generation, that does not say yet with what.
func proposal(parent plan.Record, attempts int) plan.Restore {
	id := make([]byte, 8)
	rand.Read(id) // never fails: crypto/rand ends the process instead
	return plan.Restore{
		Lasts:   proposalTime,
		Cluster: parent.Cluster, Generation: parent.Generation + 1, Attempt: attempts + 1,
		ID: hex.EncodeToString(id), Line: append(append([]string(nil), parent.Line...), parent.ID),
	}
}
