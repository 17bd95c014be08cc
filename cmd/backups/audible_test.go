package backups

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
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
	for name, ask := range map[string]func(s snapshot.Store) error{
		"list":          func(s snapshot.Store) error { _, err := s.List(t.Context(), ""); return err },
		"get":           func(s snapshot.Store) error { s.Get(t.Context(), "a"); return nil },
		"put if absent": func(s snapshot.Store) error { return s.PutIfAbsent(t.Context(), "a", nil) },
	} {
		for silent, want := range map[time.Duration]string{
			silence - 1: "",
			silence + 1: "waiting for the store s3://b, which has not answered for 5s; Ctrl-C ends the command\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				a := &audible{Store: mute(silent), at: "s3://b", said: &said}
				for range 2 {
					if err := ask(a); err != nil {
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
