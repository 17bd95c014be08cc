package pki

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a source that neither answers nor heeds a context, like a directory on a dead server, until it is released.
type stuck struct {
	given
	hangs chan struct{} // closed when it no longer hangs
	asked atomic.Int32
}

func (s *stuck) Authorities(ctx context.Context) (Authorities, error) {
	s.asked.Add(1)
	<-s.hangs
	return s.given.Authorities(ctx)
}

// A store that hangs does not keep a member with good certificates from starting, or a process from ending. It is not
// asked again before it has answered, and then its answer counts.
func TestSourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newAuthorities(t, "one", ages)
		k := newKeeper(t, &given{now: all}, nil)
		prepare(t, k, "a")
		s := &stuck{given: given{now: all}, hangs: make(chan struct{})}
		again := openKeeper(t, k.cfg, s)
		begin := time.Now()
		for range 3 {
			prepare(t, again, "a") // with the earlier leaves
		}
		if took := time.Since(begin); took > sourceWait || s.asked.Load() != 1 {
			t.Errorf("three starts took %s, and the source was asked %d times", took, s.asked.Load())
		}
		if p := strings.Join(again.Problems(), "; "); !strings.Contains(p, "no answer to the last question") {
			t.Errorf("problems: %s", p)
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		without := openKeeper(t, Config{Mode: ModeCA, Dir: t.TempDir(), LeafLife: life}, &stuck{hangs: s.hangs})
		begin = time.Now()
		if err := without.Prepare(ctx, "a"); err == nil || time.Since(begin) != 0 {
			t.Errorf("after the end: %v after %s", err, time.Since(begin))
		}
		close(s.hangs)
		synctest.Wait()
		prepare(t, again, "a")
		if s.asked.Load() != 2 || again.now().known == nil || len(again.Problems()) != 0 {
			t.Errorf("asked %d times, problems %q", s.asked.Load(), again.Problems())
		}
	})
}

// What another process is writing in tls.dir is left alone; what a crash has left is removed.
func TestTemporaryFiles(t *testing.T) {
	k := newKeeper(t, &given{now: newAuthorities(t, "one", ages)}, nil)
	prepare(t, k, "a")
	old := time.Now().Add(-2 * abandoned)
	for _, name := range []string{".new-young", ".new-old"} {
		path := filepath.Join(k.cfg.Dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		if strings.HasSuffix(name, "-old") {
			must(t, os.Chtimes(path, old, old))
		}
	}
	prepare(t, k, "a")
	left, err := filepath.Glob(filepath.Join(k.cfg.Dir, ".*-*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".new-young" {
		t.Errorf("left: %v, %v", left, err)
	}
}
