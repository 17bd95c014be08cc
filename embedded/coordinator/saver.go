package coordinator

import (
	"time"
)

const (
	freshRestore = time.Minute      // how old the backup may be that is made sure of before a restore
	freshMember  = 5 * time.Minute  // and before a member is replaced
	saveRestore  = 2 * time.Minute  // how long that may take before a restore
	saveMember   = 30 * time.Second // and before a member is replaced
)
