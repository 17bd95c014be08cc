package hosts

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
)

// A command is the program itself, in the given directory, on a host with a name.
func TestCommand(t *testing.T) {
	_, all := network(t, "n1", "n2")
	for _, h := range all {
		if got := run(t, h, "cat /proc/sys/kernel/hostname"); got != h.Name {
			t.Errorf("hostname: got %s, want %s", got, h.Name)
		}
		if got, want := sourceOf(t, h), h.Address(); got != want {
			t.Errorf("address of the default route of %s: got %s, want %s", h.Name, got, want)
		}
	}
	dir := t.TempDir()
	cmd := all[0].Command(t.Context(), "pwd")
	cmd.Dir = dir
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != dir {
		t.Errorf("directory: got %s, %v, want %s", out, err, dir)
	}
	cmd = all[0].Command(t.Context(), "sleep", "1000")
	must(t, cmd.Start())
	until(t, "the shell has become the program", func() bool {
		comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "comm"))
		return err == nil && string(comm) == "sleep\n"
	})
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	cmd.Wait()
	if got := cmd.ProcessState.Sys().(syscall.WaitStatus); got.Signal() != syscall.SIGTERM {
		t.Errorf("end: got %s, want SIGTERM", cmd.ProcessState)
	}
	var exit *exec.ExitError
	if err := all[0].Command(t.Context(), "there-is-none").Run(); !errors.As(err, &exit) || exit.ExitCode() != 127 {
		t.Errorf("a program that is not there: got %v, want exit code 127", err)
	}
}

// What one process of a host mounts or puts in /run, the next process of that host finds, and nobody else does.
func TestPrivateMounts(t *testing.T) {
	_, all := network(t, "n1", "n2")
	dir := t.TempDir()
	run(t, all[0], "mount -t tmpfs volume "+dir)
	run(t, all[0], "echo mine >"+dir+"/file; echo mine >/run/file")
	for _, path := range []string{dir + "/file", "/run/file"} {
		if got := run(t, all[0], "cat "+path); got != "mine" {
			t.Errorf("%s on its host: got %q", path, got)
		}
		if got, err := os.ReadFile(all[0].Path(path)); err != nil || string(got) != "mine\n" {
			t.Errorf("%s from outside: got %q, %v", path, got, err)
		}
		for _, elsewhere := range []string{path, all[1].Path(path)} {
			if _, err := os.Stat(elsewhere); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: got %v, want that it does not exist", elsewhere, err)
			}
		}
	}
	if !mounted(t, all[0], dir) || mounted(t, all[1], dir) {
		t.Errorf("%s is mounted: got %t on n1 and %t on n2, want true and false", dir, mounted(t, all[0], dir), mounted(t, all[1], dir))
	}
	must(t, all[0].Kill())
	if !mounted(t, all[0], dir) {
		t.Errorf("Kill has unmounted %s", dir)
	}
	before := all[0].Pid()
	cmd := all[0].Command(t.Context(), "sleep", "1000")
	must(t, cmd.Start())
	must(t, all[0].Reboot())
	if lives(strconv.Itoa(cmd.Process.Pid)) || lives(strconv.Itoa(before)) {
		t.Errorf("a process has survived a reboot")
	}
	cmd.Wait()
	if mounted(t, all[0], dir) {
		t.Errorf("%s is still mounted after a reboot", dir)
	}
	if got := run(t, all[0], "ls /run; cat /proc/sys/kernel/hostname"); got != "n1" {
		t.Errorf("/run and the hostname after a reboot: got %q, want n1", got)
	}
	expect(t, mailboxes(t, all), none)
}

func mounted(t *testing.T, h *Host, dir string) bool {
	t.Helper()
	all, err := h.Mounts()
	must(t, err)
	for _, m := range all {
		if m.Mountpoint == dir {
			return true
		}
	}
	return false
}

// The mounts of a destroyed host are gone when Destroy returns, even if a process had the volume open, so that it can
// be mounted elsewhere.
func TestDestroyFreesVolumes(t *testing.T) {
	_, all := network(t, "n1", "n2")
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 16<<20))
	out, err := exec.Command("losetup", "--find", "--show", "--nooverlap", image).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command("losetup", "--detach", device).Run() })
	if out, err := exec.Command("mkfs.ext4", "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v: %s", err, out)
	}
	point := filepath.Join(dir, "volume")
	must(t, os.Mkdir(point, 0o700))
	run(t, all[0], "mount "+device+" "+point+" && echo kept >"+point+"/file && sync")
	writer := all[0].Command(t.Context(), "sh", "-c", `setsid sh -c 'echo open; while :; do echo x; sleep 0.01; done >`+point+`/log' & wait`)
	stdout, err := writer.StdoutPipe()
	must(t, err)
	must(t, writer.Start())
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	exclusive := func() error {
		f, err := os.OpenFile(device, os.O_RDWR|syscall.O_EXCL, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	if err := exclusive(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("exclusive open of a mounted device: got %v, want EBUSY", err)
	}
	must(t, all[0].Destroy())
	if err := exclusive(); err != nil {
		t.Errorf("exclusive open after Destroy: %v", err)
	}
	writer.Wait()
	must(t, all[0].Destroy())
	if got := run(t, all[1], "mount "+device+" "+point+" && cat "+point+"/file"); got != "kept" {
		t.Errorf("the volume on another host: got %q", got)
	}
	must(t, all[1].Destroy())
	if points, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(point)); err != nil || len(points) != 0 {
		t.Errorf("mounts of this process: got %v, %v", points, err)
	}
}

// Kill ends everything on the host: processes that ignore signals, daemons, stopped processes, and those with mounts
// or a network of their own. It spares everybody else.
func TestKill(t *testing.T) {
	_, all := network(t, "n1", "n2")
	neighbour := all[1].Command(t.Context(), "sleep", "1000")
	must(t, neighbour.Start())
	cmd := all[0].Command(t.Context(), "sh", "-c", `trap "" TERM INT HUP
		setsid sleep 1000 & echo $!
		unshare --mount sleep 1000 & echo $!
		unshare --net sleep 1000 & echo $!
		sleep 1000 & kill -STOP $!; echo $!
		echo end; wait`)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	pids := []string{strconv.Itoa(cmd.Process.Pid)}
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "end"; {
		pids = append(pids, lines.Text())
	}
	if len(pids) != 5 {
		t.Fatalf("processes: got %v, want 5", pids)
	}
	for i, kind := range map[int]string{2: "mnt", 3: "net"} { // forked by the shell; wait until they have got there
		until(t, "process "+pids[i]+" is in a namespace of its own", func() bool {
			pid, err := strconv.Atoi(pids[i])
			must(t, err)
			own, _ := namespaceOf(pid, kind)
			hosts, _ := namespaceOf(all[0].Pid(), kind)
			return own != hosts
		})
	}
	must(t, all[0].Kill())
	for _, pid := range pids {
		if lives(pid) {
			t.Errorf("process %s has survived", pid)
		}
	}
	cmd.Wait()
	if !lives(strconv.Itoa(neighbour.Process.Pid)) {
		t.Errorf("a process of the other host was killed")
	}
	if got := run(t, all[0], "echo on"); got != "on" {
		t.Errorf("a command after Kill: got %q", got)
	}
	must(t, all[1].Kill())
	neighbour.Wait()
}

// A command that was just started is killed or stopped too, even if it has not reached the host yet.
func TestOnTheWay(t *testing.T) {
	_, all := network(t, "n1", "n2")
	for range 50 {
		cmd, other := all[0].Command(t.Context(), "sleep", "1000"), all[1].Command(t.Context(), "sleep", "1000")
		must(t, other.Start())
		must(t, cmd.Start())
		pid := strconv.Itoa(cmd.Process.Pid)
		must(t, all[0].Freeze())
		if stat, err := status("/proc/" + pid); err != nil || stat.state != "T" {
			t.Errorf("frozen: got state %q, %v, want T", stat.state, err)
		}
		must(t, all[0].Thaw())
		must(t, all[0].Kill())
		if lives(pid) {
			t.Fatalf("process %s has survived", pid)
		}
		cmd.Wait()
		if !lives(strconv.Itoa(other.Process.Pid)) {
			t.Errorf("a process on the way to the other host was killed")
		}
		must(t, all[1].Kill())
		other.Wait()
	}
}

// A frozen host answers nothing. When it is thawed, it answers what it was asked meanwhile.
func TestFreeze(t *testing.T) {
	_, all := network(t, "n1", "n2")
	echo := func(h *Host) (io.Writer, <-chan string) {
		cmd := h.Command(t.Context(), "sh", "-c", "cat; true") // two processes
		stdin, err := cmd.StdinPipe()
		must(t, err)
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := make(chan string)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(stdout); s.Scan(); {
				lines <- s.Text()
			}
		}()
		t.Cleanup(func() {
			h.Kill()
			for range lines {
			}
			cmd.Wait()
		})
		return stdin, lines
	}
	answers := func(w io.Writer, lines <-chan string, within time.Duration) string {
		if w != nil {
			if _, err := io.WriteString(w, "hello\n"); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case line := <-lines:
			return line
		case <-time.After(within):
			return ""
		}
	}
	w, lines := echo(all[0])
	w2, lines2 := echo(all[1])
	if got := answers(w, lines, assurance); got != "hello" {
		t.Fatalf("before: got %q", got)
	}
	must(t, all[0].Freeze())
	if got := answers(w, lines, silence); got != "" {
		t.Errorf("frozen: got %q, want nothing", got)
	}
	if got := answers(w2, lines2, assurance); got != "hello" {
		t.Errorf("the other host: got %q", got)
	}
	must(t, all[0].Freeze())
	must(t, all[0].Thaw())
	if got := answers(nil, lines, assurance); got != "hello" {
		t.Errorf("thawed: got %q", got)
	}
	must(t, all[0].Freeze())
	must(t, all[0].Kill()) // frozen processes die too
}

// No process that sees the machine's mounts is ever listed for a signal, even if everything else fits.
func TestMachineIsSpared(t *testing.T) {
	_, all := network(t, "n1")
	machine, err := namespaceOf(os.Getpid(), "mnt")
	must(t, err)
	found, err := processes(func(int) bool { return true })
	must(t, err)
	defer closeAll(found)
	anchor := false
	for _, p := range found {
		mnt, _ := namespaceOf(p.pid, "mnt")
		if mnt == machine || p.pid == 1 || p.pid == os.Getpid() {
			t.Errorf("process %d of the machine is listed", p.pid)
		}
		anchor = anchor || p.pid == all[0].Pid()
	}
	if !anchor {
		t.Errorf("the anchor is not listed")
	}
}
