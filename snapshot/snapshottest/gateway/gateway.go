package gateway

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The gateway's only account.
const (
	AccessKey = "holdfast"
	SecretKey = "not-a-secret"
	Region    = "us-east-1"
)

// Gateway is a running S3 server. Use its methods from one goroutine.
type Gateway struct {
	// URL is the endpoint. It stays the same if the gateway is started again.
	URL string
	// Root has a directory for each bucket.
	Root string

	t        testing.TB
	binary   string
	versions string
	cmd      *exec.Cmd
	ended    chan struct{}
	said     *output
}

// Start builds and runs a gateway that keeps its buckets in root, or in a directory of the test if root is "". It ends
// with the test. With -short it skips the test.
func Start(t testing.TB, root string) *Gateway {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an S3 server, which takes minutes to build once")
	}
	binary, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	if root == "" {
		root = t.TempDir()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // the gateway cannot report its port, so it gets one that was free
	g := &Gateway{t: t, binary: binary, Root: root, versions: t.TempDir(), URL: "http://" + address, said: &output{}}
	g.Run()
	t.Cleanup(g.Kill)
	return g
}

// Env returns the environment variables that a process needs to use the gateway.
func Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_REGION=" + Region,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
}

// Run starts the gateway, possibly again after Kill, and returns when it answers.
func (g *Gateway) Run() {
	g.t.Helper()
	g.cmd = exec.Command(g.binary, "-address", g.URL[len("http://"):], "-region", Region,
		"-access", AccessKey, "-secret", SecretKey, "-versions", g.versions, g.Root)
	g.cmd.Stdout, g.cmd.Stderr = g.said, g.said
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // so that it ends if the test panics
	started, ended, cmd := make(chan error), make(chan struct{}), g.cmd
	g.ended = ended
	go func() {
		// The parent-death signal comes when the thread that started the child ends (prctl(2)), so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // it was killed, so the error is expected
		}
	}()
	if err := <-started; err != nil {
		g.t.Fatalf("start versitygw: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		answer, err := http.Get(g.URL)
		if err == nil {
			answer.Body.Close()
			return
		}
		select {
		case <-ended:
			g.t.Fatalf("versitygw ended at once, saying:\n%s", g.said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			g.Kill()
			g.t.Fatalf("versitygw does not answer on %s: %v\n%s", g.URL, err, g.said)
		}
	}
}

// Kill ends the gateway abruptly, and waits for its end.
func (g *Gateway) Kill() {
	g.cmd.Process.Kill()
	<-g.ended
}

// Bucket makes a bucket and returns its directory.
func (g *Gateway) Bucket(name string) string {
	g.t.Helper()
	dir := filepath.Join(g.Root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		g.t.Fatal(fmt.Errorf("make bucket %s: %w", name, err))
	}
	return dir
}

// output keeps the gateway's output.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
