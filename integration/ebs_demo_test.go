package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/volume/volumetest/ec2test"
)

// The metrics of claims and requests, and how many requests an hour a holder and a standby send.
func TestEBSMetricsAndRequests(t *testing.T) {
	r := masters(t)
	r.cluster.Set("volume.ebs.scan-every", "15s") // the default
	r.cluster.Set("volume.ebs.takeover-after", "30s")
	r.cluster.Start()
	w := r.written(20)
	w.Stop()
	holder, standby := r.cluster.Nodes[0], r.standby(zones[0])
	for n, want := range map[*integration.Node]string{holder: "held", standby: "standby"} {
		states := series(t, n, "holdfast_volume_claim_state")
		sum := 0.0
		for _, v := range states {
			sum += v
		}
		if states[fmt.Sprintf("holdfast_volume_claim_state{state=%q}", want)] != 1 || sum != 1 {
			t.Errorf("%s: got %v, want %s alone", n.Name, states, want)
		}
	}
	requests := series(t, holder, "holdfast_ec2_requests_total")
	for _, op := range []string{"DescribeVolumes", "AttachVolume", "DetachVolume", "CreateTags"} {
		got, want := requests[fmt.Sprintf(`holdfast_ec2_requests_total{code="ok",operation=%q}`, op)], r.EC2.Calls(op, holder.Machine.ID)
		if got != float64(want) {
			t.Errorf("%s: the series says %v requests, EC2 says %d: %v", op, got, want, requests)
		}
	}
	asked := func(n *integration.Node) int { // the metadata service is on the machine's own host, and costs nothing
		return r.EC2.Calls("", n.Machine.ID) - r.EC2.Calls("IMDS", n.Machine.ID)
	}
	t.Logf("a claim has cost %d requests", asked(holder))
	t.Run("rate", func(t *testing.T) {
		tier.Long(t, "it counts for a minute; TestSteady of volume/ebs counts for a simulated hour")
		before := map[*integration.Node]int{holder: asked(holder), standby: asked(standby)}
		time.Sleep(time.Minute) // the rate is measured
		for n, most := range map[*integration.Node]int{holder: 2, standby: 6} {
			calls := asked(n) - before[n]
			t.Logf("%s, %s: %d requests in a minute, %d an hour", n.Name, map[bool]string{true: "which holds a volume", false: "on standby"}[n == holder], calls, 60*calls)
			if calls > most {
				t.Errorf("%s: %d requests in a minute, want at most %d", n.Name, calls, most)
			}
		}
	})
	if got := len(standby.Decisions()); got > 4 {
		t.Errorf("the standby has logged %d decisions: %v", got, standby.Decisions())
	}
	w.Verify()
}

// The demo on hosts becomes healthy. An instance that is terminated with its hint is replaced, and Ctrl-C leaves
// nothing.
func TestEBSDemoOnHosts(t *testing.T) {
	d := hostsDemo(t)
	d.wait("^cluster main: HEALTHY")
	hint := d.wait(`curl -d '(.*)' (http\S*)   # the instance of (n\d), the leader`)
	resp, err := http.Post(hint[2], "application/x-www-form-urlencoded", strings.NewReader(hint[1]))
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("terminate: %s", resp.Status)
	}
	d.wait(hint[3] + ": instance i-0+4 replaces i-")                     // the fourth instance
	for verdict, serves := "", false; verdict != "HEALTHY" || !serves; { // in one status, whose first line is the verdict
		line := d.wait(`^cluster main: ([A-Z]+)|^ ` + hint[3] + ` +[abc] .* (?:follower|leader) `)
		if serves = line[1] == ""; !serves {
			verdict = line[1]
		}
	}
	d.interrupt()
}

// A demo that is interrupted while it makes its hosts leaves nothing either.
func TestEBSDemoInterrupted(t *testing.T) {
	d := hostsDemo(t)
	d.wait("making 3 hosts")
	d.interrupt()
}

// demoOnHosts is the program of integration/demo, with its lines as they come.
type demoOnHosts struct {
	t     *testing.T
	cmd   *exec.Cmd
	tmp   string
	lines chan string
	ended chan error
}

func hostsDemo(t *testing.T) *demoOnHosts {
	story(t)
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces, loop devices and mounts need root")
	}
	path, err := binary()
	must(t, err)
	program := filepath.Join(t.TempDir(), "demo")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "holdfast/integration/demo")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	d := &demoOnHosts{t: t, lines: make(chan string, 10_000), ended: make(chan error, 1)}
	d.tmp, err = os.MkdirTemp("", "hf-") // a short path, for the sockets
	must(t, err)
	d.cmd = exec.Command(program, "-binary", path)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	out, in := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = in, in
	must(t, d.cmd.Start())
	go func() { d.ended <- d.cmd.Wait(); in.Close() }() // ends with the process
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	go func() { // ends with the process
		defer close(d.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			d.lines <- s.Text()
		}
	}()
	return d
}

// wait returns the match of the first matching line from now on.
func (d *demoOnHosts) wait(pattern string) []string {
	d.t.Helper()
	re, late := regexp.MustCompile(pattern), time.After(time.Minute)
	for {
		select {
		case l, ok := <-d.lines:
			if !ok {
				d.t.Fatalf("the demo ended before %q", pattern)
			}
			d.t.Log(l)
			if m := re.FindStringSubmatch(l); m != nil {
				return m
			}
		case <-late:
			d.t.Fatalf("no line like %q within a minute", pattern)
		}
	}
}

// interrupt sends Ctrl-C. The exit code must be 0, and nothing of the demo may be left.
func (d *demoOnHosts) interrupt() {
	d.t.Helper()
	namespace, err := os.Readlink("/proc/self/ns/pid")
	must(d.t, err)
	must(d.t, d.cmd.Process.Signal(os.Interrupt))
	d.wait("everything is removed")
	select {
	case err := <-d.ended:
		must(d.t, err)
	case <-time.After(patience):
		d.t.Fatal("the demo has not ended")
	}
	left, err := os.ReadDir(d.tmp)
	must(d.t, err)
	if len(left) > 0 {
		d.t.Errorf("left in %s: %v", d.tmp, left)
	}
	nothingLeft(d.t, d.tmp, fmt.Sprintf("holdfast-host/%s/%d/", namespace, d.cmd.Process.Pid))
	must(d.t, os.RemoveAll(d.tmp))
}

// nothingLeft checks that no process, loop device, mount or link belongs to a directory, or has a mark of the hosts of
// a process.
func nothingLeft(t *testing.T, words ...string) {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/mounts", "/sys/block/loop*/loop/backing_file", "/sys/class/net/*/ifalias"} {
		paths, err := filepath.Glob(pattern)
		must(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
				t.Errorf("%s: %.300q", path, text)
			}
		}
	}
}

// faults are the faults of the storm. Each is drawn for a few requests of one caller or of all callers.
var faults = []ec2test.Fault{
	{Action: "AttachVolume", Kind: ec2test.LoseResponse}, {Action: "AttachVolume", Kind: ec2test.LoseRequest},
	{Action: "AttachVolume", Kind: ec2test.Late, Delay: 3 * time.Second}, {Action: "AttachVolume", Kind: ec2test.Late, Delay: 18 * time.Second},
	{Action: "AttachVolume", Kind: ec2test.Slow, Delay: 6 * time.Second},
	{Action: "DetachVolume", Kind: ec2test.LoseResponse}, {Action: "DetachVolume", Kind: ec2test.Late, Delay: 6 * time.Second},
	{Action: "CreateTags", Kind: ec2test.LoseRequest}, {Action: "CreateTags", Kind: ec2test.Late, Delay: 5 * time.Second},
	{Action: "DescribeVolumes", Kind: ec2test.LoseResponse}, {Action: "DescribeVolumes", Kind: ec2test.Random, Changes: 10},
	{Action: "DescribeVolumes", Kind: ec2test.Stale, Age: 4 * time.Second},
	{Kind: ec2test.Throttle}, {Kind: ec2test.Fail, Code: "Unavailable"}, {Action: ec2test.IMDS, Kind: ec2test.Fail},
}

// From the founding on, EC2 gives wrong answers at random, and nodes are killed, also in the middle of a claim,
// paused, rebooted and terminated, while two standbys wait for their volumes. In the end every slot is served, and no
// acknowledged write is lost.
func TestEBSStorm(t *testing.T) {
	r := masters(t)
	random := dice(t)
	for range 2 {
		r.cluster.Place(r.Launch(zones[random.IntN(3)]))
	}
	r.cluster.Start()
	first := r.cluster.Write()
	for range *blows {
		f := faults[random.IntN(len(faults))]
		f.Times = 1 + random.IntN(3)
		if random.IntN(2) == 0 {
			f.Caller = r.Machines[random.IntN(len(r.Machines))].ID
		}
		inject(t, r.Site, f)
		r.strike(t, random)
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond) // until the next blow
	}
	r.EC2.Clear()
	r.cluster.Until(3*time.Minute, "every slot is served after the storm", func() error { // a lost AttachVolume is waited for 2 min
		for _, n := range r.cluster.Nodes {
			if !n.Running() { // it may still have to be killed at its step
				n.Start()
			}
		}
		return r.cluster.Served()
	})
	w := r.cluster.Write()
	w.More(20)
	r.oneEach(t)
	r.onTheirVolumes(t)
	t.Logf("%d writes were acknowledged in the storm", first.Acked())
	if first.Acked() > 0 { // otherwise the storm was over before the founding
		first.Verify()
	}
	w.Verify()
}

// strike does one of the things that happen to machines and their processes, and starts what does not run.
func (r *region) strike(t *testing.T, random *rand.Rand) {
	t.Helper()
	steps := []string{"before-attach", "after-claim-tag", "after-attach", "device", "before-format", "after-format", "before-identity", "before-held-tag"}
	i := random.IntN(len(r.cluster.Nodes))
	n := r.cluster.Nodes[i]
	switch random.IntN(10) {
	case 0, 1:
		n.Kill()
	case 2, 3:
		must(t, n.Machine.Host.Reboot())
	case 4, 5:
		n.Pause()
		time.Sleep(3 * time.Second) // longer than takeover-after
		n.Continue()
	case 6:
		n.Machine.Terminate()
		r.cluster.Nodes = slices.Delete(r.cluster.Nodes, i, i+1)
		r.cluster.Place(r.Launch(n.Machine.Zone))
	}
	for _, n := range r.cluster.Nodes {
		if n.Running() {
			continue
		}
		if random.IntN(3) == 0 {
			n.Start(killAt + steps[random.IntN(len(steps))])
		} else {
			n.Start()
		}
	}
}
