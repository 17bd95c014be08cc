package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/backups"
	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Rehearsal is the result of a rehearsal.
type Rehearsal struct {
	Source   string          `json:"source"`             // the backup, or the directories
	Revision int64           `json:"revision,omitempty"` // of the backup
	Real     []PlannedMember `json:"real_members"`       // of the cluster itself
	Same     bool            `json:"same_ids"`           // the rehearsal's members have the IDs of the real ones
	Etcd     string          `json:"etcd"`               // version, of both programs
	Program  plan.Program    `json:"program"`            // whose layout the volumes had
	Steps    []Step          `json:"steps"`
	Acked    int             `json:"acknowledged_writes"`
	Unsure   int             `json:"unanswered_writes"` // neither acknowledged nor counted as lost
	Lost     int             `json:"lost_writes"`
	Gap      time.Duration   `json:"longest_gap"` // in acknowledged writes, in nanoseconds
	Compared int64           `json:"compared_revision,omitempty"`
	Hashes   []Hash          `json:"hashes,omitempty"`
	Stopped  string          `json:"stopped,omitempty"` // what stopped it; "" if it succeeded
}

// Step is one step of a rehearsal, and what clients noticed of it.
type Step struct {
	Text string        `json:"text"`
	Slot string        `json:"slot,omitempty"`
	Took time.Duration `json:"took"`
	Gap  time.Duration `json:"gap"` // the longest time without an acknowledged write
}

// Hash is the hash of a member's keys.
type Hash struct {
	Slot string `json:"slot"`
	Hash uint32 `json:"hash_kv"`
}

// Works are the works of a rehearsal's child processes.
var Works = []child.Work{
	child.NewWork(stageCommand, "Rehearse a takeover; run by `takeover rehearse`", onStage),
	child.NewWork(plainCommand, "Run etcd without holdfast; run by a rehearsal", plainEtcd),
}

const (
	stageCommand = "rehearse-child"
	plainCommand = "etcd-child"
)

// rehearsalDomain is the domain of host names that only a rehearsal's processes resolve.
const rehearsalDomain = "rehearsal.internal"

// script is the order for the child process that performs a rehearsal in a network namespace of its own.
type script struct {
	Dir      string       `json:"dir"`                // empty at first; the parent made it, and removes it
	Database string       `json:"database,omitempty"` // of the backup; "" with copies
	Program  plan.Program `json:"program"`
	Token    string       `json:"token"`
	Pattern  string       `json:"pattern"`     // of the peer URLs
	Named    string       `json:"member_name"` // pattern of the members' names
	Quota    int64        `json:"quota"`
	Hold     string       `json:"hold"` // stop.hold: how long a member may wait for the lock of the one before
	Cast     []actor      `json:"cast"`
	Result   Rehearsal    `json:"result"` // as far as it is known before
}

// actor is a member of the rehearsal.
type actor struct {
	Slot    string `json:"slot"`
	Name    string `json:"name"`
	Peer    string `json:"peer"` // URL
	Address string `json:"address"`
	Copy    string `json:"copy,omitempty"` // the directory that is copied for it; "" with a backup
}

// Rehearse makes a cluster from the newest backup, or from copies of all members' directories, in a network namespace
// of its own. It takes the cluster over and gives it back. Its files are in temp ("" for the system's temporary
// directory) and are removed. The error means that the rehearsal was not tried; what stopped it is in the result.
func Rehearse(ctx context.Context, cfg config.Config, copies []string, members int, temp string,
	progress io.Writer) (r Rehearsal, err error) {
	dir, err := os.MkdirTemp(temp, "holdfast-rehearsal-")
	if err != nil {
		return r, fmt.Errorf("make a directory for the rehearsal: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := script{Dir: dir, Quota: cfg.Etcd.QuotaBackendBytes, Hold: cfg.Stop.Hold.String()}
	if len(copies) > 0 {
		s.castCopies(&r, cfg, copies)
	} else {
		err = s.castBackup(ctx, &r, cfg, members, progress)
	}
	if err != nil || r.Stopped != "" {
		return r, err
	}
	r.Program = s.Program
	fmt.Fprintf(progress, "rehearsing on %s with %d members, in a network of its own\n", r.Source, len(s.Cast))
	s.Result = r
	err = child.Isolated(ctx, stageCommand, s, &r, progress)
	return r, err
}

// castBackup fetches the newest backup and chooses the members. They get other IDs than the real ones, because a backup
// has no member's log.
func (s *script) castBackup(ctx context.Context, r *Rehearsal, cfg config.Config, members int,
	progress io.Writer) error {
	store, err := backups.OpenStore(ctx, cfg, progress)
	if err != nil {
		return err
	}
	id, err := generations.Identity(ctx, store, cfg.Cluster.Name)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	skipped := func(lines []string) { fmt.Fprintln(progress, strings.Join(lines, "\n")) }
	b, err := node.Archive{Store: store, Cluster: cfg.Cluster.Name, Skipped: skipped}.Find(ctx, "", id.Lineage)
	if errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("%w; make one with `holdfast snapshot save`, or name copies of all members' directories", err)
	}
	if err != nil {
		return err
	}
	opt, err := node.BackupOptions(cfg)
	if err != nil {
		return err
	}
	opt.Scratch = s.Dir
	s.Database = filepath.Join(s.Dir, "backup", filepath.Base(embedded.DatabasePath("")))
	if err := os.Mkdir(filepath.Dir(s.Database), 0o700); err != nil {
		return err
	}
	meta, err := snapshot.Fetch(ctx, store, b.Name, s.Database, opt)
	if err != nil {
		return err
	}
	r.Source, r.Revision = "backup "+b.Name, meta.Content.Revision
	known, err := embedded.ReadDatabase(s.Database)
	if err != nil {
		r.Stopped = err.Error()
		return nil
	}
	r.Real = listed(known.V3, node.MemberNames(cfg))
	voters := len(slices.DeleteFunc(known.V3, func(m embedded.ListedMember) bool { return m.Learner }))
	slots := cfg.Cluster.Slots
	if n := cmp.Or(members, meta.Members, voters, len(slots)); n != len(slots) {
		slots = config.Sized(n)
	}
	s.Program, s.Token, s.Named = plan.EtcdManager, "rehearsal", "etcd-"+config.SlotMark
	s.Pattern = "http://etcd-" + config.SlotMark + "." + rehearsalDomain + ":2380"
	for i, slot := range slots {
		s.Cast = append(s.Cast, actor{Slot: slot, Name: "etcd-" + slot, Address: address(i),
			Peer: strings.Replace(s.Pattern, config.SlotMark, slot, 1)})
	}
	return nil
}

// castCopies reads the copies, which must be those of all members. The rehearsal's members keep their IDs and names.
func (s *script) castCopies(r *Rehearsal, cfg config.Config, dirs []string) {
	found := Check(dirs)
	r.Source = strings.Join(dirs, ", ")
	var why []string
	for _, m := range found.Members {
		why = append(why, obstacles(m.Findings)...)
	}
	if len(why) > 0 {
		r.Stopped = strings.Join(why, "; ")
		return
	}
	first := found.Members[0].Lists
	names := node.MemberNames(cfg)
	r.Real, r.Same = listed(first.V3, names), true
	s.Pattern, s.Named = cfg.Etcd.PeerURL, cfg.Cluster.MemberName
	for i, m := range found.Members {
		left, err := (embedded.Disk{Names: names}).Left(dirs[i])
		if err != nil || left == nil {
			r.Stopped = fmt.Sprintf("%s is no volume that can be taken over: %v", dirs[i], err)
			return
		}
		full, wrong := (embedded.Disk{Names: names}).Told(*left, m.Lists.V3, m.Lists.ClusterVersion)
		if len(wrong) > 0 {
			r.Stopped = strings.Join(wrong, "; ")
			return
		}
		s.Program, s.Token = left.Program, left.Token
		own := full.Members[slices.IndexFunc(full.Members, func(e plan.Elder) bool { return e.ID == m.Lists.Member })]
		s.Cast = append(s.Cast, actor{Slot: own.Slot, Name: own.Name, Peer: own.PeerURL, Address: address(i),
			Copy: config.Abs(dirs[i])})
		if before, ok := strings.CutSuffix(own.Name, own.Slot); ok {
			s.Named = before + config.SlotMark
		}
	}
	if n := len(first.V3); n != len(s.Cast) {
		r.Stopped = fmt.Sprintf("the cluster has %d members, and %d directories are named: name copies of all members", n,
			len(s.Cast))
	}
}

// listed returns the members as the result shows them.
func listed(list []embedded.ListedMember, names embedded.Names) (all []PlannedMember) {
	for _, m := range list {
		l := PlannedMember{ID: fmt.Sprintf("%x", m.ID), Name: m.Name, PeerURL: strings.Join(m.PeerURLs, ",")}
		l.Slot, _ = names.SlotOfURL(l.PeerURL)
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b PlannedMember) int { return cmp.Compare(a.Slot, b.Slot) })
	return all
}

// address returns the loopback address of the i-th member.
func address(i int) string { return fmt.Sprintf("127.0.1.%d", i+1) }

// onStage performs a rehearsal in this process, which must be in a network namespace of its own.
func onStage(ctx context.Context, s script, _ *zap.Logger) (any, error) {
	if err := child.Loopback(); err != nil {
		return nil, err
	}
	return s.perform(ctx, os.Stderr), nil
}
