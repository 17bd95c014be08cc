package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"holdfast/integration"
)

const (
	gossipPort = 7946
	peerPort   = 2380
)

// victim is the node of a fault.
type victim struct {
	*Run
	*integration.Node
	index  int
	others []*integration.Node
	fault  Fault
}

// inflict begins a fault, waits as long as the fault says, and ends it.
func (r *Run) inflict(f Fault) {
	r.t.Helper()
	i := f.Node
	if f.Leader {
		if leads := r.leader(); leads >= 0 {
			i = leads
		}
	}
	v := victim{Run: r, Node: r.cluster.Nodes[i], index: i, fault: f}
	for _, n := range r.cluster.Nodes {
		if n != v.Node {
			v.others = append(v.others, n)
		}
	}
	r.say("%s (%s)", f, v.Name)
	end, err := v.begin()
	if err != nil {
		r.say("it is not possible now: %v", err)
		return
	}
	var each func()
	if f.Kind == Stutter {
		each = func() {
			v.Signal(syscall.SIGSTOP)
			time.Sleep(150 * time.Millisecond) // the stutter
			v.Signal(syscall.SIGCONT)
		}
	}
	r.wait(f.For, each)
	if err := end(); err != nil {
		r.t.Fatalf("end %s: %v", f, err)
	}
}

// leader returns the index of the node that says that it leads, or -1.
func (r *Run) leader() int {
	return slices.IndexFunc(r.cluster.Nodes, func(n *integration.Node) bool {
		s, err := n.Self()
		return err == nil && s.State == "leader"
	})
}

// begin begins the fault and returns a function that ends it.
func (v victim) begin() (end func() error, err error) {
	host := v.Machine.Host
	switch v.fault.Kind {
	case Kill:
		return v.kill(v.Node), nil
	case KillTwo:
		return v.kill(v.others...), nil
	case KillAll:
		return v.kill(v.cluster.Nodes...), nil
	case Step:
		v.Kill()
		v.Start("HOLDFAST_TEST_KILL_AT=" + v.fault.Step)
		return nothing, nil
	case Stop:
		return v.stop()
	case HandOver:
		return nothing, v.handOver()
	case Pause:
		if !v.Running() {
			return nil, errors.New("it does not run")
		}
		v.Pause()
		return func() error { v.Continue(); return nil }, nil
	case Stutter:
		return nothing, nil
	case Isolate:
		return host.Rejoin, host.Isolate()
	case Split, Deaf, Mute:
		return v.site.Net.Heal, v.cut()
	case Gossip:
		return v.site.Net.Heal, host.Block("tcp", gossipPort)
	case Peers:
		return v.site.Net.Heal, host.Block("tcp", peerPort)
	case Loss:
		return v.site.Net.Heal, host.Loss(v.fault.Amount)
	case Move:
		return v.move()
	case NoEC2:
		v.Kill()
		v.site.Down()
		v.Start()
		return func() error { v.site.Up(); return nil }, nil
	case NoStore:
		return v.hideStore()
	case Yank, Stall, Full, Lose:
		return v.disk()
	}
	return nil, fmt.Errorf("there is no fault %q", v.fault.Kind)
}

func nothing() error { return nil }

// kill kills nodes at once. The end of the fault starts them again.
func (r *Run) kill(all ...*integration.Node) (end func() error) {
	for _, n := range all {
		r.down[n] = true
		n.Signal(syscall.SIGKILL)
	}
	for _, n := range all {
		n.Kill()
	}
	return func() error { r.up(all...); return nil }
}

// up starts nodes that were down on purpose.
func (r *Run) up(all ...*integration.Node) {
	for _, n := range all {
		r.down[n] = false
		if !n.Running() {
			n.Start()
		}
	}
}

func (v victim) stop() (func() error, error) {
	if _, err := v.Self(); err != nil { // before that, the process may not handle SIGTERM yet
		return nil, err
	}
	v.down[v.Node] = true
	v.Signal(syscall.SIGTERM)
	return func() error {
		if code := v.Exit(20 * time.Second); code != 0 {
			v.say("%s ended with code %d after SIGTERM", v.Name, code)
		}
		v.up(v.Node)
		return nil
	}, nil
}

// handOver moves the leadership to the next node.
func (v victim) handOver() error {
	leads := v.leader()
	if leads < 0 {
		return errors.New("nobody leads")
	}
	client, err := v.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	to, err := client.Status(ctx, v.cluster.Nodes[(leads+1)%nodes].ClientURL())
	if err != nil {
		return err
	}
	client.SetEndpoints(v.cluster.Nodes[leads].ClientURL())
	_, err = client.MoveLeader(ctx, to.Header.MemberId)
	return err
}

// cut cuts one direction, or both, between the node and the others. Clients reach all of them.
func (v victim) cut() error {
	var errs []error
	for _, o := range v.others {
		if v.fault.Kind != Deaf {
			errs = append(errs, v.site.Net.Cut(v.Machine.Host, o.Machine.Host))
		}
		if v.fault.Kind != Mute {
			errs = append(errs, v.site.Net.Cut(o.Machine.Host, v.Machine.Host))
		}
	}
	return errors.Join(errs...)
}

// move restarts the node at another address. The end restarts it at the old one, which its clients use.
func (v victim) move() (func() error, error) {
	home := v.Machine.Host.Address()
	away, err := v.site.Net.Unused()
	if err != nil {
		return nil, err
	}
	v.Kill()
	v.cluster.Move(v.Machine, away)
	v.Start()
	return func() error {
		v.Kill()
		v.cluster.Move(v.Machine, home)
		v.Start()
		return nil
	}, nil
}

// hideStore renames the backup store, and restarts the node, which looks for the store.
func (v victim) hideStore() (func() error, error) {
	store := v.cluster.Store
	v.Kill()
	if err := os.Rename(store, store+".away"); err != nil {
		return nil, err
	}
	v.Start()
	return func() error {
		// A node may have made the directory again, as on a machine where the store's mount is missing.
		if err := os.RemoveAll(store); err != nil {
			return err
		}
		return os.Rename(store+".away", store)
	}, nil
}

// disk begins a fault of the node's volume.
func (v victim) disk() (func() error, error) {
	id, cloud := v.volumes[v.index], v.site.EC2
	s, err := v.Self()
	if err != nil {
		return nil, err
	}
	if s.Volume == nil || s.Volume.ID != id {
		return nil, errors.New("it holds no volume")
	}
	switch v.fault.Kind {
	case Yank:
		return func() error {
			v.down[v.Node] = true
			v.Kill()
			err := cloud.ForceDetach(id) // as if AWS had repaired it
			v.up(v.Node)
			return err
		}, cloud.Yank(id)
	case Stall:
		v.down[v.Node] = true // a process that uses a stalled file system cannot be killed
		return func() error {
			err := cloud.Thaw(id)
			v.down[v.Node] = false
			return err
		}, cloud.Freeze(id)
	case Full:
		filler := v.Machine.Host.Path(filepath.Join(s.Volume.Path, "filler"))
		return func() error { return os.Remove(filler) }, fill(filler)
	default:
		return v.lose(id)
	}
}

// fill writes a file until the file system has no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lose removes the volume of the node for good, and adds a blank one in its zone.
func (v victim) lose(id string) (func() error, error) {
	v.down[v.Node] = true
	v.Kill()
	if err := errors.Join(v.Machine.Host.Reboot(), v.site.EC2.ForceDetach(id),
		v.site.EC2.DeleteTag(id, "holdfast:cluster")); err != nil {
		return nil, err
	}
	v.volumes[v.index] = v.volume(v.index)
	return func() error { v.up(v.Node); return nil }, nil
}
