package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerTest) != "" {
		os.Exit(m.Run()) // the child of TestKilledOwner, which leaves something on purpose
	}
	before := remains()
	code := m.Run()
	if after := remains(); !slices.Equal(before, after) && code == 0 {
		fmt.Printf("FAIL: left behind: got %q, want %q\n", after, before)
		code = 1
	}
	os.Exit(code)
}

// remains lists what this process's hosts have left on the machine, and the namespaces that it keeps open.
func remains() []string {
	var all []string
	me, err := self()
	if err != nil {
		return []string{err.Error()}
	}
	mine := func(mark string) bool { o, ok := parseMark(mark); return ok && o == me }
	links, err := whole(netlink.LinkList)
	if err != nil {
		all = append(all, err.Error())
	}
	for _, l := range links {
		if mine(l.Attrs().Alias) {
			all = append(all, "link "+l.Attrs().Name)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if mine(markOf(pid)) {
			all = append(all, fmt.Sprintf("process %d", pid))
		}
	}
	files, _ := filepath.Glob("/proc/self/fd/*")
	for _, f := range files {
		if to, _ := os.Readlink(f); strings.HasPrefix(to, "net:") || strings.HasPrefix(to, "mnt:") || strings.HasPrefix(to, "pipe:") {
			all = append(all, "descriptor of "+to)
		}
	}
	named, _ := os.ReadDir("/run/netns")
	for _, e := range named {
		if strings.Contains(e.Name(), "hf-") {
			all = append(all, "namespace "+e.Name())
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), origin) {
		all = append(all, "a host's mount among the machine's")
	}
	return all
}

// network makes a network with hosts of these names.
func network(t *testing.T, names ...string) (*Network, []*Host) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces need root")
	}
	n, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for _, name := range names {
		if _, err := n.Add(name); err != nil {
			t.Fatal(err)
		}
	}
	return n, n.Hosts()
}

// must fails the test for an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a shell script on the host and returns its output.
func run(t *testing.T, h *Host, script string) string {
	t.Helper()
	out, err := h.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v: %s", h.Name, script, err, out)
	}
	return strings.TrimSpace(string(out))
}
