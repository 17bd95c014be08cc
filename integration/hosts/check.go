package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// programs are the programs that are run here or on a host, with their Debian packages.
var programs = []struct{ name, from string }{
	{"nft", "nftables"}, {"nsenter", "util-linux"}, {"mount", "mount"}, {"sh", "dash"}, {"cat", "coreutils"},
	{"readlink", "coreutils"},
}

// Check returns an error if this machine lacks something for hosts. It makes a network with a host and a fault, and
// removes them again.
func Check() error {
	n, err := New(Options{})
	if err != nil {
		return err
	}
	h, err := n.Add("check")
	if err == nil {
		err = h.Loss(50)
	}
	return errors.Join(err, n.Close())
}

// equipped returns an error if this process is not root, or a program is missing.
func equipped() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("hosts in network namespaces need root, and the user id is %d: run it with sudo", uid)
	}
	var missing []error
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			missing = append(missing, fmt.Errorf("hosts in network namespaces need the program %s: install %s", p.name, p.from))
		}
	}
	return errors.Join(missing...)
}
