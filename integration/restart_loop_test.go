package integration_test

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
)

// The loop of docs/operating.md restarts a healthy cluster, and stops at the first node that does not come back. The
// others continue without it.
func TestRestartLoop(t *testing.T) {
	t.Parallel() // its parts are stories
	type loop struct {
		name  string
		spoil func(t *testing.T, n *integration.Node) // before the loop
		want  []string                                // the nodes that may be restarted
	}
	for _, one := range tier.Share(t, 3, []loop{
		{"all is well", func(*testing.T, *integration.Node) {}, []string{"n1", "n2", "n3"}},
		{"a binary that does not start", func(_ *testing.T, n *integration.Node) { n.Binary = "/bin/false" }, []string{"n1", "n2"}},
		{"a directory that holdfast refuses", func(t *testing.T, n *integration.Node) { must(t, os.Chmod(n.Data, 0o755)) }, []string{"n1"}}, // by the check before
	}) {
		t.Run(one.name, func(t *testing.T) {
			story(t)
			c := founded(t, integration.Options{})
			c.Healthy()
			w := c.Write()
			w.More(20)
			one.spoil(t, c.Nodes[1])
			restarted, said := runLoop(t, c)
			w.More(50) // the others serve
			if !slices.Equal(restarted, one.want) {
				t.Errorf("restarted %q, want %q; the loop said:\n%s", restarted, one.want, said)
			}
			if whole := len(one.want) == len(c.Nodes); whole == strings.Contains(said, "node2 did not come back") {
				t.Errorf("the loop said:\n%s", said)
			}
			w.Verify()
		})
	}
}

// runLoop runs the loop of the documentation, and returns which nodes were restarted. Its ssh runs the command here,
// its runuser as this user, its systemctl is restart, and its holdfast is the binary under test with the host's
// configuration.
func runLoop(t *testing.T, c *integration.Cluster) (restarted []string, said string) {
	t.Helper()
	path, err := binary()
	must(t, err)
	dir := t.TempDir()
	asked, answers := pipe(t, dir, "asked"), pipe(t, dir, "answers")
	for name, script := range map[string]string{
		"ssh":       `export HOST=n${1#root@node}; shift; exec sh -c "$*"`,
		"runuser":   `shift 3; exec "$@"`, // -u holdfast --
		"systemctl": `echo "$HOST" > ` + asked.Name() + `; read code < ` + answers.Name() + `; exit "$code"`,
		"holdfast":  `exec ` + path + ` $(echo "$@" | sed "s:/etc/holdfast.yaml:` + c.Dir + `/$HOST/config.yaml:")`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	cmd := exec.Command("sh", "-c", loop(t))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended, hosts := make(chan error, 1), make(chan string)
	go func() { ended <- cmd.Wait() }()
	go func() { // ends when the pipe is closed
		for lines := bufio.NewScanner(asked); lines.Scan(); {
			hosts <- lines.Text()
		}
	}()
	for {
		select {
		case host := <-hosts:
			restarted = append(restarted, host)
			code := "1\n"
			if restart(t, c.Nodes[slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n.Name == host })]) {
				code = "0\n"
			}
			_, err := answers.WriteString(code)
			must(t, err)
		case <-ended:
			return restarted, out.String()
		case <-time.After(2 * patience):
			t.Fatalf("the loop hangs; it said:\n%s", out.String())
		}
	}
}

// restart does what systemctl does with a unit of Type=notify: it returns when the process says that it runs, or has
// ended.
func restart(t *testing.T, n *integration.Node) bool {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must(t, err)
	defer conn.Close()
	n.Stop()
	n.Start("NOTIFY_SOCKET=" + socket)
	for begin := time.Now(); n.Running() && time.Since(begin) < patience; {
		must(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		said := make([]byte, 64)
		if count, err := conn.Read(said); err == nil && strings.Contains(string(said[:count]), "READY=1") {
			return true
		}
	}
	return false
}

// pipe makes a named pipe. It is opened for both directions, so that opening one end does not wait for the other.
func pipe(t *testing.T, dir, name string) *os.File {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// loop returns the loop of the documentation.
func loop(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/operating.md")
	must(t, err)
	for _, block := range strings.Split(string(data), "```sh\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.Contains(text, "systemctl restart holdfast") {
			return text
		}
	}
	t.Fatal("docs/operating.md has no loop that restarts the nodes")
	return ""
}
