package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// programs that are run here or on a host, and the Debian packages they come in.
var programs = []struct{ name, from string }{
	{"nft", "nftables"}, {"nsenter", "util-linux"}, {"mount", "mount"}, {"sh", "dash"}, {"cat", "coreutils"},
	{"readlink", "coreutils"},
}

// Check returns an error that says what this machine lacks for hosts, nil if it lacks nothing. It knows because
// it makes a network with a host on it, and a fault, and takes them down again.
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

// equipped returns an error when it is clear without trying that no host can be made.
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
