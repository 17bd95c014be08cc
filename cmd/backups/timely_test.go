package backups

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/config"
	"holdfast/snapshot"
	"holdfast/volume/device/devicetest"
)

// mute answers after a while.
type mute time.Duration

func (m mute) wait()                                             { time.Sleep(time.Duration(m)) }
func (m mute) Put(context.Context, string, io.Reader) error      { return nil }
func (m mute) PutIfAbsent(context.Context, string, []byte) error { m.wait(); return nil }
func (m mute) Get(context.Context, string) (io.ReadCloser, error) {
	m.wait()
	return nil, snapshot.ErrNotFound
}
func (m mute) List(context.Context, string) (all []snapshot.Object, _ error) {
	m.wait()
	return nil, nil
}
func (m mute) Delete(context.Context, string) error { return nil }

// Who waits for a store that is silent is told so once, and by its name.
func TestSilenceOfAStore(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, s snapshot.Store) error{
		"list":          func(ctx context.Context, s snapshot.Store) error { _, err := s.List(ctx, ""); return err },
		"get":           func(ctx context.Context, s snapshot.Store) error { s.Get(ctx, "a"); return nil },
		"put if absent": func(ctx context.Context, s snapshot.Store) error { return s.PutIfAbsent(ctx, "a", nil) },
	} {
		for silent, want := range map[time.Duration]string{
			snapshot.Silence - 1: "",
			snapshot.Silence + 1: "waiting for the store s3://b, which has not answered for 5s; Ctrl-C ends the command\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				a := timely(mute(silent), "s3://b", &said)
				for range 2 {
					if err := ask(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait() // for the timer that has just spoken
				if said.String() != want {
					t.Errorf("%s, silent for %s: said %q, want %q", name, silent, said.String(), want)
				}
			})
		}
	}
}

// Each place with backups has that limit: the store, the spool, and a store that a command names.
func TestPlacesAreLimited(t *testing.T) {
	cfg := config.Default()
	cfg.Snapshot.Store, cfg.Snapshot.Spool = t.TempDir(), t.TempDir()
	b, err := Open(t.Context(), cfg, "me", io.Discard)
	must(t, err)
	other, err := b.At(t.Context(), t.TempDir())
	must(t, err)
	for where, s := range map[string]snapshot.Store{"store": b.Store, "spool": b.spool, "other": other.Store} {
		if limited, is := s.(*snapshot.Timely); !is || limited.Limit != patience || limited.Slow == nil {
			t.Errorf("%s: got %#v", where, s)
		}
	}
}

// On a machine whose spool and scratch directory are on a dead disk, commands on the store still work, and those that
// need the directory name it.
func TestDeadDirectories(t *testing.T) {
	t.Parallel()
	dead := devicetest.Dead(t)
	cfg := config.Default()
	cfg.Snapshot.Store, cfg.Snapshot.Spool, cfg.Snapshot.Scratch = t.TempDir(), dead+"/spool", dead+"/scratch"
	b, err := Open(t.Context(), cfg, "me", io.Discard)
	must(t, err)
	err = b.Progressing(func(snapshot.Options) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "snapshot.scratch: "+dead+"/scratch has not answered") {
		t.Errorf("verify: got %v", err)
	}
	if b.spool == nil {
		t.Error("a spool that does not answer counts as none")
	}
}
