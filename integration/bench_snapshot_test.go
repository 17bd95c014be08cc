package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	etcdsnapshot "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// BenchmarkSnapshot saves, verifies and fetches a database like that of Kubernetes, which an etcd in this process
// serves. Copies compares that, in turns, with `etcdctl snapshot save` of the same database over loopback, and with
// `cp`. Ratios are to etcdctl's wall time. Puts saves while clients write.
func BenchmarkSnapshot(b *testing.B) {
	for _, mib := range databases {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			copies, puts := roundsOf(b, mib, 3), roundsOf(b, mib, 6)
			s := newSaver(b, mib<<20)
			for _, kind := range []struct {
				name    string
				measure func(*testing.B, int)
				rounds  int
			}{{"Copies", s.compare, copies}, {"Puts", s.underLoad, puts}} {
				b.Run(kind.name, func(b *testing.B) {
					for b.Loop() {
						kind.measure(b, kind.rounds)
					}
					b.ReportMetric(0, "ns/op") // the total time is meaningless
				})
			}
		})
	}
}

// etcdctlBinary builds plain etcdctl once, from the module that holdfast embeds.
var etcdctlBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "etcdctl")
	cmd := exec.Command("go", "build", "-o", path, "go.etcd.io/etcd/etcdctl/v3")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcdctl: %w\n%s", err, out)
	}
	return path, nil
})

// saver has a member, and everything that copies its database.
type saver struct {
	etcd   *embed.Etcd
	rival  string // the path of etcdctl
	client string // client URL
	dir    string
	store  *snapshot.Dir
}

// newSaver serves a generated database of about size bytes.
func newSaver(b *testing.B, size int64) *saver {
	etcdctl, err := etcdctlBinary()
	if err != nil {
		b.Fatal(err)
	}
	s := &saver{rival: etcdctl, dir: b.TempDir()}
	data := filepath.Join(s.dir, "etcd")
	db := snapshottest.NewDB(b)
	db.FillKubernetes(size)
	const peer = "http://127.0.0.1:0"
	if err := etcdsnapshot.NewV3(zap.NewNop()).Restore(etcdsnapshot.RestoreConfig{
		SnapshotPath: db.Path(), Name: "a", OutputDataDir: data, PeerURLs: []string{peer}, InitialCluster: "a=" + peer,
		InitialClusterToken: "bench", SkipHashCheck: true,
	}); err != nil {
		b.Fatal(err)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel = "a", data, "panic"
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls, cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local, local, local
	cfg.InitialCluster, cfg.QuotaBackendBytes = "a=http://127.0.0.1:0", 16<<30
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.etcd.Close)
	<-s.etcd.Server.ReadyNotify()
	s.client = "http://" + s.etcd.Clients[0].Addr().String()
	for _, dir := range []string{"store", "scratch", "out"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	s.store = snapshot.NewDir(filepath.Join(s.dir, "store"))
	return s
}

// trial is the cost of one copy of the database.
type trial struct {
	wall, cpu, anon float64 // seconds, CPU seconds, and the peak in MiB above the start
	copied          float64 // seconds until the backup was stored, before it was read back
}

// measure runs do and measures this process. do returns the CPU seconds of other processes.
func (s *saver) measure(do func() float64) trial {
	debug.FreeOSMemory()
	stop := watchMemory()
	cpu, start := ownCPU(), time.Now()
	others := do()
	return trial{wall: time.Since(start).Seconds(), cpu: ownCPU() - cpu + others, anon: stop()}
}

func (s *saver) options() snapshot.Options {
	return snapshot.Options{Scratch: filepath.Join(s.dir, "scratch"), Rate: int64(snapshot.Default().Rate) << 20}
}

// save saves with holdfast, and returns the name of the backup.
func (s *saver) save(b *testing.B) (t trial, meta snapshot.Meta) {
	b.Helper()
	var copied time.Time
	opt := s.options()
	opt.Progress = func(p snapshot.Progress) {
		if p.Phase == "verifying" && copied.IsZero() {
			copied = time.Now()
		}
	}
	var start time.Time
	t = s.measure(func() float64 {
		start = time.Now()
		var err error
		tx := s.etcd.Server.Backend().Snapshot().(snapshot.Tx)
		if meta, err = snapshot.Save(b.Context(), s.store, tx, snapshot.Meta{Cluster: "bench"}, opt); err != nil {
			b.Fatal(err)
		}
		return 0
	})
	t.copied = copied.Sub(start).Seconds()
	return t, meta
}

// etcdctl saves with the rival.
func (s *saver) etcdctl(b *testing.B) trial {
	b.Helper()
	file := filepath.Join(s.dir, "out", "etcdctl.db")
	defer os.Remove(file)
	return s.measure(func() float64 {
		cmd := exec.Command(s.rival, "--endpoints", s.client, "snapshot", "save", file)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("etcdctl: %v\n%s", err, out)
		}
		return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	})
}

// compare measures each kind some times, in turns, and prints every trial.
func (s *saver) compare(b *testing.B, rounds int) {
	fmt.Printf("\n== %s, load average %s\n%-10s %8s %8s %8s %12s %8s\n", b.Name(), loadAverage(), "what", "wall s", "cpu s", "MiB/s", "RssAnon MiB", "ratio")
	ratios := map[string][]float64{}
	walls, peaks := map[string][]float64{}, map[string][]float64{}
	for range rounds {
		rival := s.etcdctl(b)
		saved, meta := s.save(b)
		size := float64(meta.Content.Size) / (1 << 20)
		report := func(name string, t trial) {
			ratio := t.wall / rival.wall
			ratios[name] = append(ratios[name], ratio)
			walls[name], peaks[name] = append(walls[name], t.wall), append(peaks[name], t.anon)
			fmt.Printf("%-10s %8.2f %8.2f %8.0f %12.1f %8.2f\n", name, t.wall, t.cpu, size/t.wall, t.anon, ratio)
		}
		report("etcdctl", rival)
		report("save", trial{wall: saved.copied, cpu: saved.cpu, anon: saved.anon})
		report("verified", saved)
		report("verify", s.measure(func() float64 {
			if _, err := snapshot.Verify(b.Context(), s.store, meta.Name, s.options()); err != nil {
				b.Fatal(err)
			}
			return 0
		}))
		fetched := filepath.Join(s.dir, "out", "fetched.db")
		report("fetch", s.measure(func() float64 {
			opt := s.options()
			opt.Rate = 0
			if _, err := snapshot.Fetch(b.Context(), s.store, meta.Name, fetched, opt); err != nil {
				b.Fatal(err)
			}
			return 0
		}))
		report("cp", s.measure(func() float64 { copySynced(b, fetched, fetched+".copy"); return 0 }))
		os.Remove(fetched)
		fmt.Printf("compressed %.2f times\n", float64(meta.Content.Size)/float64(meta.Stored.Size))
		if err := snapshot.Delete(b.Context(), s.store, meta.Name); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(saved.anon, "MiB-anon")
		b.ReportMetric(saved.cpu, "cpu-s")
	}
	for _, name := range []string{"save", "verified", "verify", "fetch", "cp"} {
		b.ReportMetric(median(ratios[name]), name+"/etcdctl")
		record(b.Name(), name+"-s", walls[name], walls["etcdctl"])
		record(b.Name(), name+"-MiB", peaks[name], nil)
	}
}

// copySynced copies the file and syncs it.
func copySynced(b *testing.B, from, to string) {
	b.Helper()
	defer os.Remove(to)
	r, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if _, err := io.Copy(struct{ io.Writer }{w}, r); err != nil {
		b.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		b.Fatal(err)
	}
}

// underLoad compares how long puts take: alone, while holdfast saves, and while etcdctl does. It takes turns in short
// rounds, because the disk and the rest of the machine have different loads in each. The puts of all rounds count
// together, because one round has too few for a p99.
func (s *saver) underLoad(b *testing.B, rounds int) {
	kinds := []struct {
		name string
		do   func()
	}{
		{"alone", func() { time.Sleep(2 * time.Second) }}, // the duration of the measurement
		{"save", func() {
			_, meta := s.save(b)
			if err := snapshot.Delete(b.Context(), s.store, meta.Name); err != nil {
				b.Error(err)
			}
		}},
		{"etcdctl", func() { s.etcdctl(b) }},
	}
	all := make([][]float64, len(kinds))
	var times []float64 // for each round, the p99 beside a save divided by that alone
	for range rounds {
		var p99 []float64
		for i, k := range kinds {
			took := s.puts(b, k.do)
			all[i] = append(all[i], took...)
			slices.Sort(took)
			p99 = append(p99, took[len(took)*99/100])
		}
		times = append(times, p99[1]/p99[0])
	}
	fmt.Printf("\n== %s, load average %s at the end\n", b.Name(), loadAverage())
	var alone float64
	for i, k := range kinds {
		slices.Sort(all[i])
		at := func(q int) float64 { return all[i][len(all[i])*q/1000] }
		switch i {
		case 0:
			alone = at(990)
		case 1:
			keep(b.Name(), "p99-ms", measurement{measured: at(990), peer: alone, spread: times})
		}
		fmt.Printf("puts beside %-8s %6d, p50 %7.2f, p90 %7.2f, p99 %7.2f (%.1f times alone), p99.9 %7.2f ms\n",
			k.name, len(all[i]), at(500), at(900), at(990), at(990)/alone, at(999))
		b.ReportMetric(at(990), "ms-p99-"+k.name)
	}
}

// puts writes 400 values a second until do returns, and returns how long each write took, in milliseconds.
func (s *saver) puts(b *testing.B, do func()) (took []float64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var mu sync.Mutex
	var group errgroup.Group
	for i := range 4 {
		client := mustDial(b, s.client)
		defer client.Close()
		group.Go(func() error {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				begin := time.Now()
				if _, err := client.Put(b.Context(), fmt.Sprintf("bench/%d/%d", i, n%100), strings.Repeat("x", 1000)); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, float64(time.Since(begin))/1e6)
				mu.Unlock()
			}
		})
	}
	do()
	cancel()
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for this process
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}

// watchMemory watches the anonymous memory of this process, without the pages of mapped files. stop returns the peak
// above the start, in MiB.
func watchMemory() (stop func() float64) {
	base, done, peak := rssAnon(), make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		most := base
		for {
			select {
			case <-done:
				peak <- (most - base) / 1024
				return
			case <-tick.C:
				most = max(most, rssAnon())
			}
		}
	}()
	return func() float64 {
		close(done)
		return <-peak
	}
}

// rssAnon returns the anonymous memory in KiB.
func rssAnon() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	return 0
}
