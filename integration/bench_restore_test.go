package integration_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// BenchmarkRestore compares how long it takes from a backup to a member that is ready. holdfast begins with the
// compressed backup in the store, which it verifies completely; `etcdutl snapshot restore` begins with the
// decompressed file. Both raise the revision, and the same code in this process starts both data directories. As on a
// node, holdfast's member campaigns as soon as the plan says so (R23); the other one waits for etcd's timer, 0.1 to 1
// s.
func BenchmarkRestore(b *testing.B) {
	for _, mib := range databases {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			count := roundsOf(b, mib, 5)
			r := newRestorer(b, mib<<20)
			for b.Loop() {
				d := newDuel(b, "total-s", "restore-s", "cpu-s")
				for range count {
					d.add(kindHoldfast, r.trial(b, r.ours, campaigner()))
					d.add(kindEtcd, r.trial(b, r.theirs, func(context.Context, *embedded.Member) error { return nil }))
				}
				d.report()
			}
		})
	}
}

// etcdutlBinary builds plain etcdutl once, from the module that holdfast embeds.
var etcdutlBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "etcdutl")
	cmd := exec.Command("go", "build", "-o", path, "go.etcd.io/etcd/etcdutl/v3")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcdutl: %w\n%s", err, out)
	}
	return path, nil
})

// restoreBump is the default of restore.revision-bump.
const restoreBump = 1_000_000_000

// restorer has one database, as a backup in the store and as a file of `etcdctl snapshot save`.
type restorer struct {
	etcdutl string
	store   *snapshot.Dir
	name    string // of the backup
	file    string
	config  embedded.Config
	spec    plan.Spec
}

func newRestorer(b *testing.B, size int64) *restorer {
	b.Helper()
	etcdutl, err := etcdutlBinary()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		b.Fatal(err)
	}
	const address = "127.99.1.1"
	r := &restorer{etcdutl: etcdutl, store: snapshot.NewDir(store), file: filepath.Join(dir, "db.snapshot"), config: embedded.Config{Config: settings.Default().Resolve(address)}}
	r.config.QuotaBackendBytes = 16 << 30
	peer := "http://" + address + ":2380"
	r.spec = plan.Spec{Slot: "a", Token: "bench", PeerURL: peer, Peers: map[string]string{"a": peer}}
	db := snapshottest.NewDB(b)
	db.FillKubernetes(size)
	if err := writeSnapshot(r.file, db); err != nil {
		b.Fatal(err)
	}
	meta, err := snapshot.Save(b.Context(), r.store, db.Begin(), snapshot.Meta{Cluster: "bench"}, snapshot.Options{Scratch: dir})
	if err != nil {
		b.Fatal(err)
	}
	r.name = meta.Name
	return r
}

// writeSnapshot writes what `etcdctl snapshot save` writes: the database and its SHA-256.
func writeSnapshot(path string, db *snapshottest.DB) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	tx, sum := db.Begin(), sha256.New()
	defer tx.Close()
	if _, err := tx.WriteTo(io.MultiWriter(f, sum)); err != nil {
		return err
	}
	_, err = f.Write(sum.Sum(nil))
	return err
}

// trial restores into a new directory and starts a member there. It calls elect until the member is ready. It returns
// the total seconds, and the seconds and CPU seconds until the directory was complete.
func (r *restorer) trial(b *testing.B, restore func(b *testing.B, dir string) (cpu float64),
	elect func(context.Context, *embedded.Member) error) []float64 {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "etcd")
	defer os.RemoveAll(dir)
	unix.Sync() // earlier writes must not slow down the trial
	begin := time.Now()
	cpu := restore(b, dir)
	restored := time.Since(begin)
	member, spec := embedded.New(r.config, zap.NewNop(), nil), r.spec
	spec.DataDir = dir
	if err := member.Start(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
	for !member.Status().Ready {
		if time.Since(begin) > 5*time.Minute {
			b.Fatal("the restored member does not become ready")
		}
		if err := elect(b.Context(), member); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	total := time.Since(begin)
	if err := member.Stop(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	return []float64{total.Seconds(), restored.Seconds(), cpu}
}

// campaigner returns a function that makes a lone member campaign early, as the coordinator does.
func campaigner() func(context.Context, *embedded.Member) error {
	since := time.Now() // when the evidence began
	var campaigned uint64
	return func(ctx context.Context, member *embedded.Member) error {
		now := plan.Candidacy{Standing: member.Standing(), Campaigned: campaigned}
		if now.Evidence() == "" {
			since = time.Now()
		}
		now.Since = time.Since(since)
		if now.Ballot() == "" {
			return nil
		}
		campaigned = now.Term
		return member.Campaign(ctx, now.Standing)
	}
}

func (r *restorer) ours(b *testing.B, dir string) (cpu float64) {
	b.Helper()
	before := processorTime(b)
	path := embedded.DatabasePath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if _, err := snapshot.Fetch(b.Context(), r.store, r.name, path, snapshot.Options{}); err != nil {
		b.Fatal(err)
	}
	if err := (embedded.Disk{}).Rebuild(b.Context(), dir, r.spec, restoreBump); err != nil {
		b.Fatal(err)
	}
	return processorTime(b) - before
}

func (r *restorer) theirs(b *testing.B, dir string) (cpu float64) {
	b.Helper()
	peer := r.spec.PeerURL
	cmd := exec.Command(r.etcdutl, "snapshot", "restore", r.file, "--data-dir", dir, "--name", "a", "--initial-cluster", "a="+peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster-token", r.spec.Token, "--bump-revision", fmt.Sprint(restoreBump), "--mark-compacted")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("etcdutl: %v\n%s", err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// processorTime returns the CPU seconds of this process so far.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}
