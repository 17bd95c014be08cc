package gossip

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// childSeed makes the test binary a node of its own, which can be killed and stopped. childPapers is a file with what it
// shows and trusts, "" without TLS.
const (
	childSeed   = "GOSSIP_TEST_SEED"
	childPapers = "GOSSIP_TEST_PAPERS"
)

func child(seed string) {
	m, err := New(Config{Listen: "127.0.0.1:0", Seeds: []string{seed}}, "main", node("child"), echo, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		panic(err)
	}
	if path := os.Getenv(childPapers); path != "" {
		m.UseTLS(readPapers(path).tls())
	}
	m.Publish([]byte("fact"))
	if err := m.Run(context.Background()); err != nil {
		panic(err)
	}
}

func spawn(t *testing.T, seed *member, papers ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childSeed+"="+seed.Address().String(), childPapers+"="+strings.Join(papers, ""))
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

func signal(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	must(t, cmd.Process.Signal(sig))
}

func TestKilledAndPausedProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for memberlist's timeouts")
	}
	t.Run("in the clear", func(t *testing.T) {
		t.Parallel()
		a := start(t, "main", node("a"), nil)
		killAndPause(t, a, start(t, "main", node("b"), seeded(a)), spawn(t, a))
	})
	t.Run("over TLS", func(t *testing.T) {
		t.Parallel()
		ca := newAuthority(t)
		a := startTLS(t, node("a"), papersOf(t, ca, bound("a")))
		b := startTLS(t, node("b"), papersOf(t, ca, bound("b")), a)
		killAndPause(t, a, b, spawn(t, a, writePapers(t, ca, bound("child"))))
	})
}

// lostIn2s stops the child for two seconds, and reports whether one of the others lost it. While it stands still,
// publishing neither blocks nor keeps the others from hearing.
func lostIn2s(t *testing.T, a, b *member, cmd *exec.Cmd) bool {
	before, _ := find(a, "child")
	signal(t, cmd, syscall.SIGSTOP)
	paused := time.Now()
	for i := range 100 {
		state := make([]byte, maxState)
		state[0] = byte(i)
		a.Publish(state)
	}
	if took := time.Since(paused); took > time.Second {
		t.Errorf("publishing beside a stopped node took %v", took)
	}
	await(t, "b hears the newest", patience, func() bool {
		n, _ := find(b, "a")
		return len(n.State) > 0 && n.State[0] == 99
	})
	await(t, "two seconds to pass", patience, func() bool { return time.Since(paused) >= 2*time.Second })
	signal(t, cmd, syscall.SIGCONT)

	// What would have been decided of it is decided within suspicion and one probe.
	began := time.Now()
	await(t, "the suspicion to end", patience, func() bool { return time.Since(began) >= 4*time.Second })
	atA, _ := find(a, "child")
	atB, _ := find(b, "child")
	t.Logf("after a pause of 2 s: a says live %v since %v, b live %v", atA.Live, atA.Since, atB.Live)
	return !atA.Live || !atB.Live || !atA.Since.Equal(before.Since)
}

func killAndPause(t *testing.T, a, b *member, cmd *exec.Cmd) {
	for _, m := range []*member{a, b} {
		await(t, "the child is seen", 10*time.Second, sees(m, "child"))
		await(t, "the child is heard", 10*time.Second, says(m, "child", "fact"))
	}
	for try := 1; lostIn2s(t, a, b, cmd); try++ { // a busy machine adds to the pause
		if try == 3 {
			t.Error("a node that paused for 2 s was lost three times")
			break
		}
		await(t, "the child is back", 10*time.Second, func() bool { return sees(a, "child")() && sees(b, "child")() })
	}
	for _, m := range []*member{a, b} {
		if problems := m.Problems(); len(problems) > 0 {
			t.Errorf("%s complains of a node that paused: %v", m.self.Node, problems)
		}
	}

	signal(t, cmd, syscall.SIGKILL)
	killed := time.Now()
	for _, m := range []*member{a, b} {
		await(t, m.self.Node+" loses the killed node", 10*time.Second, func() bool { return !sees(m, "child")() })
	}
	took := time.Since(killed)
	t.Logf("a killed node was lost after %v", took.Round(10*time.Millisecond))
	if took > 6*time.Second {
		t.Errorf("a killed node was lost only after %v", took)
	}
	if n, _ := find(a, "child"); string(n.State) != "fact" {
		t.Errorf("the lost node's state: got %q, want %q", n.State, "fact")
	}
}
