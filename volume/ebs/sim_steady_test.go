package ebs

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/volume"
)

// simCalm is a life without faults.
func simCalm() life {
	return life{nodes: 5, zones: 1, takeover: takeoverTerminated, settle: 5 * time.Second, scanEvery: 15 * time.Second, after: 30 * time.Second,
		retry: 500 * time.Millisecond, write: 10 * time.Second, slow: 5 * time.Second, lag: time.Second}
}

// inCalm starts a cluster without faults, and ends it after then.
func inCalm(t *testing.T, seed uint64, l life, then func(w *simWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(seed, l, &simTally{map[string]int{}}, nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.found()
		w.recover(10 * time.Minute)
		if w.broken == "" {
			then(w)
		}
		w.finish()
		if w.broken != "" {
			t.Errorf("seed %d: %s", seed, w.broken)
		}
	})
}

// simClusters is how many clusters a test checks.
func simClusters() int {
	if testing.Short() {
		return 2
	}
	return 20
}

// TestSteady counts what a cluster costs: EC2 is asked seldom, and nodes that start together do not collide.
func TestSteady(t *testing.T) {
	seeds := simClusters()
	var wasted, attached int
	var most [2]int // requests per hour of a standby, and of a holder
	for seed := range uint64(seeds) {
		inCalm(t, seed, simCalm(), func(w *simWorld) {
			up := time.Since(w.began)
			if up > 2*time.Minute {
				t.Errorf("seed %d: all was well after %s, want 2m", seed, up)
			}
			wasted += w.tally.events["Attach in use"]
			w.sleep(5 * time.Minute)
			before := map[string]int{}
			for _, n := range w.nodes {
				before[n.name] = n.proc.requests()
			}
			w.sleep(time.Hour)
			for _, n := range w.nodes {
				role := 0
				if c := n.proc.claim; c != nil {
					role = 1
					if got, want := w.volume(c.vol).tags[TagClaim], c.tag.String(); got != want {
						t.Errorf("seed %d: the tag of %s is %q, want %q", seed, c.vol, got, want)
					}
				}
				most[role] = max(most[role], n.proc.requests()-before[n.name])
			}
			attached += w.tally.events["attach"]
		})
	}
	t.Logf("requests in an hour: at most %d of a standby, %d of a holder; %d attachments of %d clusters, and %d attempts in vain", most[0], most[1], attached, seeds, wasted)
	for role, want := range []int{300, 90} {
		if most[role] > want {
			t.Errorf("%d requests in an hour of a %s, want at most %d", most[role], []string{"standby", "holder"}[role], want)
		}
	}
	if attached != 3*seeds {
		t.Errorf("%d attachments of %d clusters, want %d", attached, seeds, 3*seeds)
	}
	if wasted > seeds/10 {
		t.Errorf("%d attempts to attach in vain in %d clusters, want at most %d", wasted, seeds, seeds/10)
	}
}

func (x *simProc) requests() (n int) {
	for _, calls := range x.calls {
		n += calls
	}
	return n
}

// TestOutage: EC2 gives no answer for an hour, and neither do the devices. No member ends, and a member whose process
// restarts serves again within seconds, because its disk is here.
func TestOutage(t *testing.T) {
	l := simCalm()
	l.lies = true
	for seed := range uint64(simClusters()) {
		inCalm(t, seed, l, func(w *simWorld) {
			w.outage = time.Now().Add(time.Hour)
			w.sleep(20 * time.Minute)
			var holder *simNode
			for _, n := range w.nodes {
				if n.proc != nil && n.proc.claim != nil {
					holder = n
				}
			}
			vol := holder.proc.claim.vol
			w.kill(holder.proc, "in the middle of the outage")
			w.sleep(time.Minute)
			if holder.proc == nil || holder.proc.claim == nil || holder.proc.claim.vol != vol {
				w.fail("want %s to serve again from %s: %s", holder.name, vol, w.describe())
			}
			w.sleep(time.Hour)
			w.recover(time.Minute)
			if got, want := w.tally.events["claim"], 4; got != want {
				w.fail("got %d claims, want %d", got, want)
			}
			if got, want := w.volume(vol).tags[TagClaim], holder.proc.claim.tag.String(); got != want {
				w.fail("the tag of %s is %q after the outage, want %q", vol, got, want)
			}
		})
	}
}

// TestFullRootDisk: the machine's own disk takes no writes, so the journal cannot be written. A member whose disk is
// here serves again after a restart; a node without one requests nothing.
func TestFullRootDisk(t *testing.T) {
	inCalm(t, 1, simCalm(), func(w *simWorld) {
		for _, n := range w.nodes {
			n.box.full = true
		}
		attached := w.tally.events["attach"]
		for _, v := range w.vols {
			holder := v.server
			w.kill(holder, "beside a full disk")
			w.sleep(time.Minute)
			if x := holder.n.proc; x == nil || x.claim == nil || x.claim.vol != v.id {
				w.fail("want %s to serve again from %s: %s", holder.n.name, v.id, w.describe())
			}
		}
		if got := w.tally.events["attach"]; got != attached {
			w.fail("got %d attachments, want %d", got, attached)
		}
	})
}

// TestLies: EC2 keeps showing the attachment to an instance that is gone, as it does when its answers are old. The
// device is here and answers, and only its instance can read it: the member serves on.
func TestLies(t *testing.T) {
	for seed := range uint64(simClusters()) {
		inCalm(t, seed, simCalm(), func(w *simWorld) {
			v := w.vols[0]
			w.end(v.server.box)
			w.recover(5 * time.Minute)
			holder := v.server
			v.lies = time.Now().Add(10 * time.Minute)
			w.sleep(11 * time.Minute)
			if v.server != holder || holder.dead {
				w.fail("want %s to serve on: %s", holder.name(), w.describe())
			}
		})
	}
}

// TestEpochsLast: whatever epoch somebody writes to the tag, the disk's identity can be read after the next claims.
func TestEpochsLast(t *testing.T) {
	inCalm(t, 1, simCalm(), func(w *simWorld) {
		v := w.vols[0]
		for range 3 {
			forged := v.server.claim.tag
			forged.Epoch = volume.MaxEpoch - 1
			w.tag(v, TagClaim, forged.String())
			w.kill(v.server, "after its tag was forged")
			w.sleep(time.Minute)
			if got := v.disk.identity.Epoch; got > volume.MaxEpoch-1e6 {
				w.fail("got the epoch %d, and %d is the last one that counts", got, uint64(volume.MaxEpoch))
			}
		}
	})
}

// TestFullInstance: a node that can have no more volumes, or cannot write its journal, tries again and again. Another
// node has the volume within a scan of a failure, however long claims are heeded.
func TestFullInstance(t *testing.T) {
	l := simCalm()
	l.nodes, l.after = 2, time.Hour
	for seed := range uint64(simClusters()) {
		synctest.Test(t, func(t *testing.T) {
			w := newSimWorld(6+seed, l, &simTally{map[string]int{}}, nil)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.found()
			w.vols = w.vols[:1]
			if seed%2 == 0 {
				w.nodes[0].refuse = map[string]Meaning{"Attach": NoRoom}
			} else {
				w.nodes[0].box.full = true
			}
			w.recover(2 * time.Minute)
			w.finish()
			if w.broken != "" {
				t.Errorf("seed %d: %s", 6+seed, w.broken)
			}
		})
	}
}
