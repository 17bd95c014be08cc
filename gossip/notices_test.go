package gossip

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestNoticesAge(t *testing.T) { synctest.Test(t, noticesAge) }

func noticesAge(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := newNotices(zap.New(core), nil)
	for range 100 { // every second for 100 s
		n.warn("k", "b: bad")
		n.show("other", "a: shown")
		time.Sleep(time.Second)
	}
	if got := logs.Len(); got != 2 {
		t.Errorf("log lines in 100 s: got %d, want 2", got)
	}
	if got, want := noticed(n), []string{"a: shown", "b: bad"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n.settle("other")
	time.Sleep(58 * time.Second)
	if got := n.Problems(); len(got) != 1 {
		t.Errorf("59 s after the last sight: got %q, want one", got)
	}
	time.Sleep(time.Second)
	if got := n.Problems(); len(got) != 0 {
		t.Errorf("a minute after the last sight: got %q, want none", got)
	}
}

// noticed are the sentences of the current problems.
func noticed(n *notices) (out []string) {
	for _, p := range n.Problems() {
		out = append(out, p.Text)
	}
	return out
}

func TestNoticesAreBounded(t *testing.T) { synctest.Test(t, noticesAreBounded) }

func noticesAreBounded(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := newNotices(zap.New(core), nil)
	for i := range 10 * maxNotices {
		n.warn(fmt.Sprint(i), fmt.Sprint(i))
	}
	if got := len(n.Problems()); got != maxNotices {
		t.Errorf("problems: got %d, want %d", got, maxNotices)
	}
	if got := logs.Len(); got != maxNotices {
		t.Errorf("log lines: got %d, want %d", got, maxNotices)
	}
	time.Sleep(noticeAge)
	n.warn("new", "new")
	if got := noticed(n); !slices.Equal(got, []string{"new"}) {
		t.Errorf("after a minute: got %q, want the new one", got)
	}
}

// Of several twins, the one that is gone disappears at once, though others are still there.
func TestTwinsThatAreGone(t *testing.T) { synctest.Test(t, twinsThatAreGone) }

func twinsThatAreGone(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := newNotices(zap.New(core), nil)
	n.show(ProblemSeed, "a seed")
	n.warnOnly(ProblemTwin+"/", map[string]string{"b.1": "one", "b.2": "two"})
	time.Sleep(twinInterval)
	n.warnOnly(ProblemTwin+"/", map[string]string{"b.2": "two"})
	if got, want := noticed(n), []string{"a seed", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := logs.Len(); got != 2 {
		t.Errorf("log lines: got %d, want one for each", got)
	}
}
