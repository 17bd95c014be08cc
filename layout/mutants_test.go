package layout

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// TestMutants shows what the guards of other programs' data are for: without each of them a test fails.
func TestMutants(t *testing.T) {
	mutanttest.Check(t, []mutanttest.Mutant{
		{Name: "whole without a log", File: "layout.go", Old: `return len(logs) > 0, err`, New: `return logs == nil || len(logs) > 0, err`,
			Test: "TestDirectories", Says: `without a log: got`},
		{Name: "whole behind a link", File: "layout.go", Old: `if info, err := os.Lstat(at); err`, New: `if info, err := os.Stat(at); err`,
			Test: "TestDirectories", Says: `(behind a link|member is a link): got`},
		{Name: "the log's lock", File: "log_linux.go", Old: `return err == nil && lock.Type != unix.F_UNLCK, err`,
			New: `return err == nil && lock.Type == unix.F_UNLCK && lock.Len < 0, err`, Test: "TestRunning", Says: `data/other: got ""`},
		{Name: "the database's lock", File: "running.go", Old: `isLocked(database, Locked)`, New: `isLocked(dir, Locked)`,
			Test: "TestRunning", Says: `got ""`},
		{Name: "etcd-manager's directories", File: "running.go", Old: `append([]string{".", Own}, paths...)`,
			New: `append([]string{".", Own}, paths[:0]...)`, Test: "TestRunning", Says: `data/tok: got ""`},
	})
}
