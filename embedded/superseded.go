package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/embedded/plan"
	"holdfast/layout"
)

// Superseded says why the data that holdfast took up on a volume is obsolete: it was given back, and the other program
// has made another cluster since, for example by a restore. Two members started on the old data would serve a cluster
// to which nobody writes any more. It returns "" if nothing shows that, as when somebody has deleted what the other
// program left. It reads a few small files and changes nothing. It returns an error if they cannot be read.
func (Disk) Superseded(volume string) (why string, err error) {
	mark, err := readOriginMark(volume)
	switch {
	case errors.Is(err, errOriginMark):
		err = nil // perhaps by a later version: it does not show that another cluster was made
	case err == nil && mark != nil && mark.Program == plan.PlainEtcd:
		why, err = plainAgain(volume, mark.Path)
	}
	if err == nil && why == "" {
		why, err = managerAgain(volume)
	}
	if err != nil {
		return "", fmt.Errorf("check whether another program has made another cluster on %s: %w", volume, err)
	}
	return why, nil
}

// plainAgain reports that plain etcd's data directory is a directory again, not the link to our data.
func plainAgain(volume, path string) (why string, err error) {
	p, err := swapOf(volume, plan.PlainEtcd, path)
	if err != nil {
		return "", err
	}
	taken, err := p.taken()
	if err != nil || taken {
		return "", err
	}
	there, err := layout.Exists(p.link)
	if err != nil || !there {
		return "", err
	}
	return fmt.Sprintf("plain etcd has data of its own in %s, created since holdfast took its data up", p.link), nil
}

// managerAgain reports that etcd-manager's file state names other data than ours, or that the link to ours is in its
// trash.
func managerAgain(volume string) (why string, err error) {
	state, err := ReadManagerState(volume)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was deleted, or etcd-manager is about to write another one
		return trashed(volume)
	case errors.Is(err, errManagerState):
		return "", nil
	case err != nil:
		return "", err
	case !tokenName(state.Token):
		return trashed(volume)
	}
	link := filepath.Join(volume, managerData, state.Token)
	if ours, err := linkTo(link, managerLink); err != nil || ours {
		return "", err
	}
	there, err := layout.Exists(link)
	if err != nil || !there {
		return "", err
	}
	return fmt.Sprintf("etcd-manager has made the cluster %s since, in %s", state.Token, link), nil
}

// trashed reports that no link leads to our data where etcd-manager looks for it, and that one is in its trash.
func trashed(volume string) (why string, err error) {
	for _, dir := range []string{managerData, layout.Trash} {
		entries, err := os.ReadDir(filepath.Join(volume, dir))
		if err != nil && !layout.Absent(err) {
			return "", err
		}
		for _, e := range entries {
			path := filepath.Join(volume, dir, e.Name())
			ours, err := linkTo(path, managerLink)
			switch {
			case err != nil:
				return "", err
			case ours && dir == layout.Trash:
				return "etcd-manager has given up the data that holdfast took up: " + path + " leads to it", nil
			case ours:
				return "", nil
			}
		}
	}
	return "", nil
}
