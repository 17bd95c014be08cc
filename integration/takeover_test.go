package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"holdfast/gossip"
	"holdfast/integration"
)

const (
	// plainNames makes this test binary run etcd with the configuration file in its argument. It has the members'
	// addresses: SLOT=ADDRESS,…
	plainNames = "HOLDFAST_TEST_PLAIN_ETCD"
	plainZone  = "plain.test"
)

// runPlainEtcd runs etcd with its own configuration, and resolves the members' names, which are in no DNS.
func runPlainEtcd(names, config string) error {
	table := map[string][]netip.Addr{}
	for pair := range strings.SplitSeq(names, ",") {
		name, address, _ := strings.Cut(pair, "=")
		at, err := netip.ParseAddr(address)
		if err != nil {
			return err
		}
		table["etcd-"+name] = []netip.Addr{at}
	}
	r := gossip.NewResolver(plainZone, "", zap.NewNop())
	r.Set(table)
	net.DefaultResolver = r.Resolver()
	cfg, err := embed.ConfigFromFile(config)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	select {
	case <-told:
		e.Close() // hands over leadership, as etcd does
		return nil
	case err := <-e.Err():
		return err
	}
}

// plainHandover is a running cluster of plain etcd, and holdfast beside it, which may take it over. Names and tokens
// differ from those that holdfast would choose. secure are the certificates of clients and members, or nil.
func plainHandover(t *testing.T, secure func(*integration.Cluster) plainTLS) *handover {
	t.Helper()
	story(t)
	holdfast, err := binary()
	must(t, err)
	c := integration.New(t, holdfast, integration.Options{})
	h := &handover{Cluster: c, t: t}
	t.Cleanup(h.report)
	scheme, certificates := "http", plainTLS{}
	if secure != nil {
		scheme, certificates = "https", secure(c)
	}
	peerURL := func(slot string) string { return fmt.Sprintf("%s://etcd-%s.%s:2380", scheme, slot, plainZone) }
	var founders, names []string
	for i, slot := range c.Slots {
		names = append(names, slot+"="+c.Nodes[i].Address)
		founders = append(founders, fmt.Sprintf("infra%d=%s", i, peerURL(slot)))
	}
	c.Set("cluster.adopt", true)
	c.Set("cluster.adopt-addresses", names)
	c.Set("etcd.peer-url", peerURL("{slot}"))
	c.Set("etcd.quota-backend-bytes", quota())
	c.Set("volume.local.root", nil) // the volume is etcd's own directory
	for i, n := range c.Nodes {
		data := filepath.Join(n.Dir, "default.etcd")
		n.Keys["volume.local.directory"] = data
		config := map[string]any{"name": fmt.Sprintf("infra%d", i), "data-dir": data,
			"listen-client-urls": n.ClientURL(), "advertise-client-urls": n.ClientURL(),
			"listen-peer-urls":            scheme + "://" + n.Address + ":2380",
			"initial-advertise-peer-urls": peerURL(c.Slots[i]),
			"quota-backend-bytes":         quota(),
			"initial-cluster":             strings.Join(founders, ","), "initial-cluster-token": "chosen by hand"}
		certificates.configure(n, config)
		text, err := json.Marshal(config)
		must(t, err)
		must(t, os.WriteFile(plainFile(n), text, 0o600))
		h.seats = append(h.seats, &seat{t: t, slot: c.Slots[i], url: n.ClientURL(), data: data, node: n, etcd: version.Version,
			stop: syscall.SIGTERM, other: func() *program { return launchPlain(t, n, names...) }})
	}
	h.found(func(urls ...string) *traffic { return newTraffic(t, c.TLS, urls...) })
	return h
}

// plainFile writes etcd's configuration on a node's host. JSON is YAML.
func plainFile(n *integration.Node) string { return filepath.Join(n.Dir, "etcd.yaml") }

// launchPlain starts etcd on a node's host, with these names of members: SLOT=ADDRESS.
func launchPlain(t *testing.T, n *integration.Node, names ...string) *program {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, plainFile(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return launch(t, cmd, filepath.Join(n.Dir, "etcd.log"), plainNames+"="+strings.Join(names, ","))
}

// The other program and holdfast on one machine never use the data at the same time, and holdfast takes over by itself
// when the other program ends. After a change of mind everything is as before.
func TestTakeoverOfPlainEtcdFenced(t *testing.T) {
	h := plainHandover(t, nil)
	h.fenced(0)
	h.give(0)
	h.verify()
}

// A machine is killed at each step of the takeover. Then the other program finds its data, and holdfast continues
// later.
func TestKillWhileTakingPlainEtcdOver(t *testing.T) {
	eachTurn(t, func(t *testing.T, turn int) { plainHandover(t, nil).killAtEachStep(turn) })
}

// A machine is killed at each step of the release.
func TestKillWhileGivingPlainEtcdBack(t *testing.T) {
	eachTurn(t, func(t *testing.T, turn int) { plainHandover(t, nil).killWhileGivingBack(turn, func() {}) })
}

// Two of three machines are taken over at the same time. The quorum is lost for that time, and nothing else is.
func TestTakeoverOfTwoAtOnce(t *testing.T) { plainHandover(t, nil).twoAtOnce() }

// A machine that was not taken over yet is lost for good while two programs run the cluster. Nothing is replaced
// automatically. The operator removes its member, as `takeover status` says, and takes the rest over. A machine with a
// blank disk gets the slot once the takeover is over (R22).
func TestTakeoverWithALostMachine(t *testing.T) {
	h := plainHandover(t, nil)
	order := h.leaderLast()
	lost, here, rest := h.seats[order[0]], h.seats[order[1]], order[2]
	h.take(order[1])
	member := func() string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		list, err := h.client.MemberList(ctx)
		must(t, err)
		for _, m := range list.Members {
			if strings.Contains(m.PeerURLs[0], "etcd-"+lost.slot+".") {
				return fmt.Sprintf("%x", m.ID)
			}
		}
		return ""
	}
	id := member()
	lost.cut()
	must(t, os.RemoveAll(lost.data))
	integration.Until(t, time.Minute, "takeover status says what to do about the lost machine", func() error {
		out := here.node.Holdfast("takeover", "status", "--control.socket", here.node.Socket())
		if out.Code != 1 || !strings.Contains(out.Out, "`holdfast etcdctl member remove "+id+"`") {
			return fmt.Errorf("it says %+v", out)
		}
		return nil
	})
	must(t, os.Mkdir(lost.data, 0o700)) // a new machine with a blank disk
	lost.node.Start()
	h.more(100)
	if now := member(); now != id {
		t.Fatalf("the lost member %s was replaced by %q although nobody has removed it", id, now)
	}
	integration.Until(t, time.Minute, "the lost member is removed", func() error {
		out := here.node.Holdfast("etcdctl", "--endpoints", here.url, "member", "remove", id)
		if out.Code != 0 && !strings.Contains(out.Err, "member not found") {
			return fmt.Errorf("it says %+v", out)
		}
		return nil
	})
	h.take(rest)
	h.healthy()
	if now := member(); now == id || now == "" {
		t.Fatalf("slot %s has the member %q, was %s", lost.slot, now, id)
	}
	cluster := h.born.cluster
	if h.born = h.identity(t.Context()); h.born.cluster != cluster {
		t.Errorf("the cluster is %x, was %x", h.born.cluster, cluster)
	}
	h.verify()
}

// A cluster of plain etcd with its operator's certificates moves to holdfast, machine by machine and the leader last,
// while clients write, and back in the same way. One of its founders was replaced before, so neither the cluster's ID
// nor the new member's ID follow from the names and the token.
func TestTakeoverOfPlainEtcd(t *testing.T) {
	h := plainHandover(t, newPlainTLS(t))
	i := h.leaderLast()[0]
	s := h.seats[i]
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	list, err := h.client.MemberList(ctx)
	must(t, err)
	name := fmt.Sprintf("infra%d", i)
	at := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.Name == name })
	// etcd requires that all members were connected for 5 s, here and below. Without a leader, it may never answer.
	integration.Until(t, time.Minute, "the member is removed", func() error {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := h.client.MemberRemove(call, list.Members[at].ID); !errors.Is(err, rpctypes.ErrMemberNotFound) {
			return err
		}
		return nil
	})
	s.cut()
	must(t, os.RemoveAll(s.data))
	integration.Until(t, time.Minute, "the member is added again", func() error {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := h.client.MemberAdd(call, list.Members[at].PeerURLs)
		return err
	})
	setJSON(t, plainFile(s.node), "initial-cluster-state", "existing")
	s.start()
	h.serves(s.url)
	h.born = h.identity(ctx)
	h.thereAndBack(func() {})
}

// After the takeover, a backup is restored. Then the cluster goes back to plain etcd, although its record no longer
// says that it was adopted. The last member is released while plain etcd leads.
func TestReturnToPlainEtcdAfterRestore(t *testing.T) {
	h := plainHandover(t, nil)
	var urls []string
	for _, i := range h.leaderLast() {
		h.take(i)
		urls = append(urls, h.seats[i].url)
	}
	h.healthy()
	h.verify()
	done(t, h.Nodes[0], "snapshot", "save")
	done(t, h.Nodes[0], "restore", "latest", "--yes")
	h.traffic = newTraffic(t, h.TLS, urls...)
	h.more(50)
	order := h.leaderLast()
	for _, i := range order {
		h.release(i)
		if i != order[2] {
			refused(t, h.seats[order[2]].node, "another program may still run", "resume", "--dry-run")
		}
	}
	h.verify()
}

// setJSON changes a value in a file.
func setJSON(t *testing.T, file, key, value string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	config := map[string]any{}
	must(t, json.Unmarshal(text, &config))
	config[key] = value
	text, err = json.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}
