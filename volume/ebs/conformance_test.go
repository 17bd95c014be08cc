package ebs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"holdfast/volume"
	"holdfast/volume/ebs"
	"holdfast/volume/volumetest"
	"holdfast/volume/volumetest/ec2test"
)

// TestConformance runs the contract of every provider with the real SDK over HTTP, and real block devices, filesystems
// and mounts. Each node of the suite is an instance.
func TestConformance(t *testing.T) {
	needDevices(t)
	clearAWS(t)
	volumetest.Run(t, func(t *testing.T) volumetest.Fixture {
		slots := []string{"a", "b", "c"}
		r := newRegion(t, slots...)
		return volumetest.Fixture{
			Slots: slots, TakeoverAfter: r.cfg.TakeoverAfter,
			Open: r.open, Crash: r.crash, Gone: r.gone, Lose: r.lose, Change: r.change,
		}
	})
}

// TestRaceToAttach lets nodes race that may not write tags, and always see the volume as free. All of them request the
// attachment, and it alone decides. In the suite, the claims in the tags make most nodes give up earlier.
func TestRaceToAttach(t *testing.T) {
	needDevices(t)
	clearAWS(t)
	r := newRegion(t, "a")
	const nodes = 10
	var providers []volume.Provider
	for n := range nodes {
		providers = append(providers, r.open(fmt.Sprintf("n%d", n)))
	}
	for _, f := range []ec2test.Fault{{Action: "CreateTags", Kind: ec2test.Deny}, {Action: "DescribeVolumes", Kind: ec2test.Stale}} {
		if err := r.cloud.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	claims, losers := make(chan volume.Claim, nodes), make(chan error, nodes)
	var all sync.WaitGroup
	for _, p := range providers {
		all.Go(func() {
			c, err := p.Claim(t.Context(), volume.Want{Cluster: volumetest.Cluster, Slots: []string{"a"}})
			if err != nil {
				losers <- err
				return
			}
			claims <- c
		})
	}
	all.Wait()
	close(claims)
	close(losers)
	if len(claims) != 1 {
		t.Errorf("got %d claims, want 1", len(claims))
	}
	for err := range losers {
		if !errors.Is(err, volume.ErrNoneFree) {
			t.Errorf("a loser got %v, want an error that wraps ErrNoneFree", err)
		}
	}
	asked := 0
	for _, n := range r.cloud.Counts() {
		if n.Action == "AttachVolume" {
			asked += n.N
		}
	}
	if asked != nodes {
		t.Errorf("got %d requests to attach, want one of each of %d nodes", asked, nodes)
	}
	if got := len(r.cloud.Intervals()); got != 1 {
		t.Errorf("the volume was attached %d times, want once", got)
	}
	r.cloud.Clear()
	for c := range claims {
		if err := c.Release(t.Context(), true); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}

// TestOpenFileKeepsNoMemberDown has the directory of a killed process's volume open, as an operator's shell has, or a
// program that collects logs.
func TestOpenFileKeepsNoMemberDown(t *testing.T) {
	needDevices(t)
	clearAWS(t)
	r := newRegion(t, "a")
	want := volume.Want{Cluster: volumetest.Cluster, Slots: []string{"a"}}
	c, err := r.open("n1").Claim(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := os.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	r.crash(c)
	again, err := r.open("n1").Claim(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	got, before := again.Volume(), c.Volume()
	if again.Mismatch() != "" || got.Disk != before.Disk || got.Epoch <= before.Epoch {
		t.Errorf("got %+v, %q, want %+v with a higher epoch", got, again.Mismatch(), before)
	}
	if err := again.Release(t.Context(), false); err != nil {
		t.Errorf("stopped: got %v, want that the next start finds it mounted", err)
	}
	if again, err = r.open("n1").Claim(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := again.Release(t.Context(), true); err == nil {
		t.Error("it was detached while it was mounted")
	}
	shell.Close()
}

// region is a stand-in for EC2 with the instances of one test.
type region struct {
	t       *testing.T
	cloud   *ec2test.Cloud
	server  *httptest.Server
	dir     string
	cfg     ebs.Config
	volumes map[string]string // by slot

	mu        sync.Mutex
	instances map[string]*instance // by node
}

// instance is a machine with at most one process of holdfast.
type instance struct {
	id        string
	root      string // of its devices
	dir       string // of its files
	client    *ebs.EC2
	processes []*process
}

func needDevices(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("filesystems are made and mounted")
	}
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
}

// newRegion makes a region with a blank volume for each slot.
func newRegion(t *testing.T, slots ...string) *region {
	t.Helper()
	r := &region{t: t, dir: t.TempDir(), cfg: ebs.Default(), volumes: map[string]string{}, instances: map[string]*instance{}}
	// TakeoverAfter is longer than a scan: a node that wrongly takes a volume at once must still have time to find it.
	r.cfg.Settle, r.cfg.ScanEvery, r.cfg.TakeoverAfter = 50*time.Millisecond, time.Second, 2*time.Second
	loops, err := ec2test.NewLoops(filepath.Join(r.dir, "devices"), 0)
	if err != nil {
		t.Fatal(err)
	}
	r.cloud = ec2test.New(ec2test.Options{
		Devices: loops, AttachDelay: 20 * time.Millisecond, DetachDelay: 20 * time.Millisecond,
		PowerOff: time.Millisecond, OwnOnly: true,
	})
	// This also unmounts what a test leaves attached and mounted.
	t.Cleanup(func() {
		if err := r.cloud.Close(); err != nil {
			t.Errorf("close the stand-in: %v", err)
		}
	})
	r.server = httptest.NewServer(r.cloud)
	t.Cleanup(r.server.Close)
	for _, slot := range slots {
		id, err := r.cloud.AddVolume(ec2test.Volume{Tags: map[string]string{ebs.TagCluster: volumetest.Cluster, ebs.TagMember: slot}})
		if err != nil {
			t.Fatal(err)
		}
		r.volumes[slot] = id
	}
	return r
}

// launch returns the instance of a node. The first call makes it.
func (r *region) launch(node string) *instance {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.instances[node]; i != nil {
		return i
	}
	id := fmt.Sprintf("i-%017x", len(r.instances)) // it does not contain the node's name, which errors must contain
	root, err := r.cloud.AddInstance(ec2test.Instance{ID: id})
	if err != nil {
		r.t.Fatal(err)
	}
	metadata := httptest.NewServer(r.cloud.IMDS(id))
	r.t.Cleanup(metadata.Close)
	log := zaptest.NewLogger(r.t).Named(node)
	client, err := ebs.NewEC2(r.t.Context(), ebs.Config{Endpoint: r.server.URL, MetadataEndpoint: metadata.URL}, nil, log)
	if err != nil {
		r.t.Fatal(err)
	}
	i := &instance{id: id, root: root, dir: filepath.Join(r.dir, node), client: client}
	r.instances[node] = i
	return i
}

// open starts a process of a node.
func (r *region) open(node string) volume.Provider {
	r.t.Helper()
	i := r.launch(node)
	cfg := r.cfg
	cfg.DeviceRoot, cfg.State, cfg.MountRoot = i.root, filepath.Join(i.dir, "state"), filepath.Join(i.dir, "volumes")
	log := zaptest.NewLogger(r.t).Named(node)
	p := &process{Machine: ebs.NewMachine(cfg, volumetest.Cluster, log)}
	r.mu.Lock()
	i.processes = append(i.processes, p)
	r.mu.Unlock()
	self := ebs.Node{Name: node, Cluster: volumetest.Cluster, Address: netip.MustParseAddrPort("127.0.0.1:7946")}
	return ebs.New(cfg, self, i.client, ebs.Host{Devices: p.Devices, Disks: p, Files: p, Memory: p}, i.client, nil, log)
}

// holder returns the instance to which a claimed volume is attached.
func (r *region) holder(c volume.Claim) *instance {
	r.t.Helper()
	v, _ := r.cloud.Volume(c.Volume().Volume)
	if len(v.Attachments) != 1 {
		r.t.Fatalf("%s has %d attachments, want one: that of its holder", c.Volume().Volume, len(v.Attachments))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.instances {
		if i.id == v.Attachments[0].Instance {
			return i
		}
	}
	r.t.Fatalf("%s is attached to %s, which is no node's", v.ID, v.Attachments[0].Instance)
	return nil
}

// crash kills the processes of the holder. The volume stays attached and mounted, and the journal is unchanged.
func (r *region) crash(c volume.Claim) {
	i := r.holder(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range i.processes {
		p.kill()
	}
}

// gone terminates the holder's instance with its kernel: what was not written is lost.
func (r *region) gone(c volume.Claim) {
	r.t.Helper()
	i := r.holder(c)
	r.crash(c)
	if err := r.cloud.TerminateInstance(i.id); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Unmount(c.Path(), unix.MNT_DETACH); err != nil {
		r.t.Errorf("unmount what the terminated instance has left: %v", err)
	}
}

func (r *region) lose(c volume.Claim) {
	r.t.Helper()
	if err := r.cloud.Yank(c.Volume().Volume); err != nil {
		r.t.Fatal(err)
	}
}

// change attaches and mounts the volume at an instance of the operator's. A blank volume gets a filesystem that is not
// holdfast's.
func (r *region) change(slot string, change func(dir string)) {
	r.t.Helper()
	i, id := r.launch("operator"), r.volumes[slot]
	dir := filepath.Join(i.dir, slot)
	host := ebs.NewMachine(ebs.Config{DeviceRoot: i.root}, volumetest.Cluster, zaptest.NewLogger(r.t))
	err := i.client.Attach(r.t.Context(), id, i.id, "/dev/sdf")
	if err != nil {
		r.t.Fatal(err)
	}
	device := ""
	r.until("the device of "+id, func() bool {
		devices, err := host.Devices()
		device = devices[id]
		return err == nil && device != ""
	})
	content, err := host.Probe(r.t.Context(), device)
	if err == nil && content.Blank {
		err = exec.Command("mkfs.ext4", "-q", device).Run()
	}
	if err == nil {
		err = host.Mount(r.t.Context(), device, dir, false)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	change(dir)
	err = errors.Join(host.Unmount(r.t.Context(), dir), i.client.Detach(r.t.Context(), id, i.id))
	if err != nil {
		r.t.Fatal(err)
	}
	r.until(id+" to be free", func() bool {
		v, ok := r.cloud.Volume(id)
		return ok && v.State == ebs.VolumeAvailable
	})
}

// until waits for a change that the stand-in makes by itself.
func (r *region) until(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited for %s in vain", what)
		}
	}
}

// process is a machine as one process sees it. It can be killed.
type process struct {
	*ebs.Machine

	mu     sync.Mutex
	unlock func()
	dead   bool
}

// Lock implements [ebs.Memory]. When the process is killed, the kernel releases the lock.
func (p *process) Lock() (func(), error) {
	unlock, err := p.Machine.Lock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlock = unlock
	return unlock, err
}

// Unmount implements [ebs.Disks]. It is the first thing that releasing a claim does to the machine. After a kill it and
// all that follows is skipped: a test's cleanup does not know that the claim's process was killed.
func (p *process) Unmount(ctx context.Context, dir string) error {
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return errors.New("this process was killed")
	}
	return p.Machine.Unmount(ctx, dir)
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	if p.unlock != nil {
		p.unlock()
	}
}

// clearAWS makes the SDK find credentials and a region only in the metadata service.
func clearAWS(t *testing.T) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	for _, key := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_DISABLED",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2",
	} {
		t.Setenv(key, "")
	}
}
