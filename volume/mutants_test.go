package volume

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// TestMutants shows what the guards of another program's data are for: without each of them a test fails.
func TestMutants(t *testing.T) {
	mutanttest.Check(t, []mutanttest.Mutant{
		{Name: "adopt without being asked", File: "take.go", Old: `case in.Foreign != nil && c.adopt:`,
			New: `case in.Foreign != nil:`, Test: "TestAdoptedVolume", Says: `without adopt: got mismatch ""`},
		{Name: "adopt in another disk's place", File: "take.go", Old: `case in.Foreign != nil && c.adopt && disk != "":`,
			New: `case in.Foreign != nil && c.adopt && disk == "-":`, Test: "TestNotAdopted", Says: `want a mismatch with "is another one`},
		{Name: "adopt while the last disk is missing", File: "take.go",
			Old: `stranger = stranger || f.foreign != nil; stranger`, New: `stranger = stranger || f.foreign == nil && f.blank; stranger`,
			Test: "TestNotAdopted", Says: `want a mismatch with "which this node held last"`},
		{Name: "adopt holdfast's own", File: "contents.go", Old: `has || err != nil {
			return nil, cure(err)
		}
	}
	all, err`, New: `has && err != nil {
			return nil, cure(err)
		}
	}
	all, err`, Test: "TestForeignEtcd", Says: `taken up before: got \["data/x1"\]`},
		{Name: "adopt without a state", File: "contents.go", Old: `d.Whole && (managed || d.Path == ".")`,
			New: `d.Whole && (managed || d.Path != "")`, Test: "TestForeignEtcd", Says: `without state: got`},
		{Name: "adopt what is not whole", File: "contents.go", Old: `d.Whole && (managed`, New: `(managed`,
			Test: "TestForeignEtcd", Says: `without a log: got`},
		{Name: "claim under a running etcd", File: "take.go", Old: `if err == nil && c.adopt {`,
			New: `if err != nil && c.adopt {`, Test: "TestRunningEtcdKeepsItsVolume", Says: `while it runs: got <nil>`},
		{Name: "set the lock aside", File: "setaside.go", Old: ` && e.Name() != ownName {`, New: ` {`,
			Test: "TestDirectoryIsTheVolume", Says: `(no such file|is gone|volume lost)`},
		{Name: "take the own directory for data", File: "contents.go", Old: `name != ownName && `, New: ``,
			Test: "TestBlankDirectoryIsYielded", Says: `want a new volume`},
		{Name: "create the directory", File: "place.go", Old: `err != nil || l.cfg.Directory == "" {`,
			New: `err != nil || MakeDirs(top) != nil || l.cfg.Directory == "" {`, Test: "TestDirectoryMustBeThere", Says: `want "does not exist`},
		{Name: "one marker is enough", File: "marker.go", Old: `		if g, err := l.goneBy(path, root); g != nil || err != nil {
			return g, err
		}
`, New: `		return l.goneBy(path, root)
`, Test: "TestSecondMarkerOutlivesTheFirst", Says: `got missing ""`},
		{Name: "write one marker", File: "marker.go", Old: `range c.local.markers {`, New: `range c.local.markers[:1] {`,
			Test: "TestSecondMarkerOutlivesTheFirst", Says: `got missing ""`},
		{Name: "look for the last disk below the directory", File: "marker.go", Old: `at := l.place(root, m.Slot)`,
			New:  `at := place{dir: filepath.Join(root, m.Slot), tag: tagPath(root, m.Slot)}`,
			Test: "TestUnmountedDirectoryIsNotBlank", Says: `(mounted again|unmounted): got`},
	})
}
