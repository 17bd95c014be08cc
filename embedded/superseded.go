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

// Superseded says why the data that holdfast took up on a volume is of the past: it was given back, and the program it
// was given back to has made another cluster since, by a restore say. Two members started on the old data would serve a
// cluster that nobody writes to any more. "" if nothing says so, as where somebody has deleted what the other program
// left. It reads a few small files and changes nothing. The error is that they cannot be read.
func (Disk) Superseded(volume string) (why string, err error) {
	mark, err := readOriginMark(volume)
	switch {
	case errors.Is(err, errOriginMark):
		err = nil // a later version's, perhaps: nothing shows that another cluster was made
	case err == nil && mark != nil && mark.Program == plan.PlainEtcd:
		why, err = plainAgain(volume, mark.Path)
	}
	if err == nil && why == "" {
		why, err = managerAgain(volume)
	}
	if err != nil {
		return "", fmt.Errorf("look whether another program has made another cluster on %s: %w", volume, err)
	}
	return why, nil
}

// plainAgain: where plain etcd finds its data, and a link leads to ours, a directory has come.
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
	return fmt.Sprintf("plain etcd has data of its own in %s, which has come since holdfast took its data up", p.link), nil
}

// managerAgain: etcd-manager's file state names data that is not ours, or what led to ours was trashed.
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

// trashed: no link leads to our data where etcd-manager looks for it, and one lies in its trash.
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
				return "etcd-manager has given up the data that holdfast has there: " + path + " leads to it", nil
			case ours:
				return "", nil
			}
		}
	}
	return "", nil
}
