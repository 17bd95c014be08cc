package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/durable"
	"holdfast/embedded/plan"
	"holdfast/layout"
)

// HandBack lets etcd-manager start etcd on a volume. It writes s as etcd-manager's file state and makes data/TOKEN lead
// to the data, even if that slot's data never was etcd-manager's. The data stays where it is, so that holdfast can
// start on it again. The link is made before the state that names it. HandBack may be repeated.
func (Disk) HandBack(volume string, s *ManagerState) (err error) {
	defer during(&err, "hand %s back to etcd-manager", volume)
	if err := s.check(); err != nil {
		return err
	}
	if err := linkBack(volume, s.Token); err != nil {
		return err
	}
	return s.Write(volume)
}

// linkBack makes data/TOKEN lead to the data.
func linkBack(volume, token string) error {
	p, err := swapOf(volume, plan.EtcdManager, filepath.Join(managerData, token))
	if err != nil {
		return err
	}
	taken, err := p.taken()
	if err != nil {
		return err
	}
	there, err := layout.Exists(p.link)
	if err != nil {
		return err
	}
	free, err := p.free()
	switch {
	case err != nil:
		return err
	case free && (taken || !there):
		return fmt.Errorf("there is no data in %s", p.home)
	case free: // holdfast never took the data up
		return nil
	case !taken && there:
		return fmt.Errorf("%s is there beside %s, and both may hold data: move away the one that is not in use", p.link,
			p.home)
	}
	above := filepath.Dir(p.link)
	if err := os.Mkdir(above, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if !taken {
		if err := os.Symlink(p.text, p.link); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncDir(above), durable.SyncDir(volume))
}
