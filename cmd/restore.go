package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// overtime is how much longer than --timeout a proposal stays open. The command aborts it before that, unless it was
// killed or the store is away: then the nodes do, as soon as they see it.
const overtime = time.Minute

// restoreFlags are what the operator says beside the backup's name.
type restoreFlags struct {
	yes     bool
	dryRun  bool
	abort   bool
	confirm bool
	foreign bool
	lost    []string
	// overrule names the disks whose objection, or whose beacon, the operator has seen.
	overrule []string
	output   string
	timeout  time.Duration
}

func newRestoreCommand() *cobra.Command {
	var f restoreFlags
	var to string
	var as restoreAs
	c := &cobra.Command{
		Use:   "restore {NAME | latest} [--to DIR] | --confirm [ID] | --abort",
		Short: "Continue with a backup, as a new generation of the cluster",
		Long: "Continue with a backup, as a new generation of the cluster. It works from any machine with access to the store,\n" +
			"with a quorum or without; on a machine that runs a node its progress is followed to the end.\n\n" +
			"A cluster that has a leader ends only through that leader, when an operator confirms it on one of its nodes: there\n" +
			"the command itself does, elsewhere run `holdfast restore --confirm` on a node, or use control.remote with an\n" +
			"operator's certificate. A cluster without a leader ends when its voters have left it, which takes 15 s at least.\n\n" +
			"First the backup is verified completely. Then every member prepares: it fetches the backup, verifies it, and\n" +
			"builds its new data beside that in use, which serves on. Until a majority has prepared, --abort or Ctrl-C ends\n" +
			"it and nothing has changed. Then there is no way back: the members stop, set their data aside, and start with\n" +
			"what they have built. Keys, leases, users and versions are those of the backup; the revision is raised, so that\n" +
			"whoever watches begins anew. What was set aside is deleted when the member has served for restore.reclaim-after.\n\n" +
			"--lost names slots whose disks are gone for good. It is needed where no majority of the members is here: a\n" +
			"member that was named and comes back all the same would serve what the cluster was before.\n\n" +
			"--to makes a data directory for any etcd instead, on any machine, and touches no cluster.\n\n" +
			"Exit code: 0 if the cluster is restored and healthy, or, where no node answers, if the members will do it.",
		Example: "  holdfast restore latest --dry-run\n  holdfast restore 2026-07-01T00:15:03Z-000042\n  holdfast restore latest --lost b,c --yes\n" +
			"  holdfast restore latest --to ./restored --revision-bump 0",
		Args: func(_ *cobra.Command, args []string) error {
			if f.abort && f.confirm || f.abort != (len(args) == 0) && !f.confirm || len(args) > 1 {
				return errors.New("say which backup, or latest; or --confirm, with or without the proposal's ID, or --abort alone (see `holdfast snapshot list` for the names)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			cfg, node, err := loadClient(c)
			if err != nil {
				return err
			}
			r, err := newRestoration(c, f, cfg, node)
			if err != nil {
				return err
			}
			if r.bump, err = as.raise(cfg); err != nil {
				return err
			}
			switch as.foreign = f.foreign; {
			case f.abort:
				return r.abort(c.Context())
			case f.confirm:
				return r.confirmOpen(c.Context(), strings.Join(args, ""))
			case to != "" && f.dryRun:
				return r.wouldCopyTo(c.Context(), args[0], to, as)
			case to != "":
				return r.copyTo(c.Context(), args[0], to, as)
			}
			return r.run(c.Context(), args[0])
		},
	}
	addClientFlags(c.Flags(), shownForStores...)
	f.add(c.Flags())
	c.Flags().StringVar(&to, "to", "", "make a data directory `DIR` of the backup and restore no cluster")
	as.addFlags(c.Flags())
	c.Flags().Lookup("revision-bump").Usage = "raise the revision by this `number`, or more where that is not beyond the last known one (default restore.revision-bump)"
	return c
}

func (f *restoreFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "verify and show, change nothing")
	fs.BoolVar(&f.abort, "abort", false, "abort the restore that is under way")
	fs.BoolVar(&f.confirm, "confirm", false, "confirm on a node of the cluster what was proposed elsewhere")
	fs.StringSliceVar(&f.overrule, "overrule", nil, "`disks` that objected to an earlier proposal, or whose beacon is in the store")
	fs.BoolVar(&f.foreign, "force-foreign", false, "restore another cluster's backup")
	fs.StringSliceVar(&f.lost, "lost", nil, "`slots` whose disks are gone for good")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Minute, "`time` after which it is aborted, if it still can be")
	fs.StringVarP(&f.output, "output", "o", "table", "`format`: table or json")
}

// check refuses flags that mean nothing before anything is asked or proposed, and takes the blanks out of --lost.
func (f *restoreFlags) check() error {
	for i, slot := range f.lost {
		if f.lost[i] = strings.TrimSpace(slot); f.lost[i] == "" {
			return fmt.Errorf("--lost: a slot has no name in %q; say slots with commas between, as b,c", strings.Join(f.lost, ","))
		}
	}
	return errors.Join(oneOf(f.output, "table", "json"), atLeast("timeout", time.Second, f.timeout))
}

// restoration is a `holdfast restore` at work.
type restoration struct {
	c       *cobra.Command
	flags   restoreFlags
	bump    int64
	b       *backupStore
	node    *control.Client
	records *generations.Records

	cluster *health.ClusterStatus // as the node on this machine sees it, nil if none answers
}

func newRestoration(c *cobra.Command, f restoreFlags, cfg config.Config, node *control.Client) (*restoration, error) {
	b, err := openBackups(c.Context(), cfg, f.output)
	if err != nil {
		return nil, err
	}
	return &restoration{c: c, flags: f, bump: cfg.Restore.RevisionBump, b: b, node: node, records: &generations.Records{Store: b.main, Cluster: cfg.Cluster.Name}}, nil
}

// run restores a backup, from the verification to the end.
func (r *restoration) run(ctx context.Context, name string) error {
	id, known, err := r.knows(ctx)
	if err != nil {
		return err
	}
	if p := known.Restore; p != nil {
		return underWay(*p)
	}
	r.cluster = r.ask(ctx)
	if err := r.shared(id); err != nil {
		return err
	}
	if err := r.settled(*known.Record); err != nil {
		return err
	}
	found, checked, err := r.verify(ctx, name, *known.Record)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	last, source, err := r.last(ctx, *known.Record)
	if err != nil {
		return err
	}
	p := coordinator.NewRestore(*known.Record, known.Attempts, checked, last, r.bump)
	p.By, p.Lost, p.Slots = operator(), r.flags.lost, r.founders(*known.Record)
	p.Lasts, p.Overruled = r.flags.timeout+overtime, r.flags.overrule
	alive, err := r.lives(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look whether the cluster lives: %w; nothing was changed", err)
	case alive != nil && alive.beacon && (r.cluster != nil || len(r.flags.lost) > 0): // no node here could confirm it, and a leader is not lost
		return fmt.Errorf("the cluster lives: %s leads %s (according to %s); nothing of it is lost, and nothing was changed; to restore it all the same, run the command on that node, without --lost; "+
			"or without --lost where no node runs, and confirm it on that node with `holdfast restore --confirm`; if that is not this cluster, say --overrule %s",
			alive.Stand, known.Record.Token(), alive.from, alive.Disk)
	case alive != nil:
		p.Led = &alive.Stand
	}
	s := summary{Restore: p, Found: found, Last: last, Source: source, Slots: r.slots(*known.Record), changed: r.changed(*known.Record), confirms: r.cluster != nil}
	if !r.b.json() {
		if err := s.write(r.c.OutOrStdout(), r.b.cfg, time.Now()); err != nil {
			return err
		}
	}
	if err := s.enough(r.flags.lost, r.cluster != nil); err != nil {
		return err
	}
	if r.flags.dryRun {
		if r.b.json() {
			return writeIndented(r.c.OutOrStdout(), s)
		}
		fmt.Fprintln(r.c.OutOrStdout(), "\nnothing was changed (--dry-run)")
		return nil
	}
	if err := r.confirm(ctx); err != nil {
		return err
	}
	if err := r.propose(ctx, p); err != nil {
		return err
	}
	return r.follow(ctx, p)
}

// underWay refuses a proposal beside another one.
func underWay(p plan.Restore) error {
	way := "see `holdfast status`, or abort it with `holdfast restore --abort`"
	if p.Led != nil {
		way += "; if it waits to be confirmed, run `holdfast restore --confirm " + p.ID + "` on a node of the cluster"
	}
	return fmt.Errorf("a %s is under way, proposed by %s: %s", p.Title(), p.By, way)
}

// knows returns the store's identity and what it knows of the cluster, whose generations it must be able to arbitrate.
func (r *restoration) knows(ctx context.Context) (id string, known plan.Store, err error) {
	if id, err = r.records.ID(ctx); err == nil {
		known, err = r.records.Known(ctx)
	}
	if err != nil {
		return id, known, fmt.Errorf("ask the store %s: %w", r.b.cfg.Snapshot.Store, err)
	}
	if known.Record == nil {
		return id, known, fmt.Errorf("the store %s knows no cluster %s, so there is nothing that could go on: check cluster.name and snapshot.store; a cluster must be founded before a backup can be restored into it",
			r.b.cfg.Snapshot.Store, r.b.cfg.Cluster.Name)
	}
	return id, known, nil
}

// ask returns the cluster as the node on this machine sees it, nil if none answers.
func (r *restoration) ask(ctx context.Context) *health.ClusterStatus {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s health.ClusterStatus
	if r.node.Get(ctx, http.MethodGet, "/status", &s) != nil {
		return nil
	}
	return &s
}

// poke has the node on this machine look at the store at once. If none does, all look within seconds anyway.
func (r *restoration) poke(ctx context.Context) {
	_ = r.node.Get(ctx, http.MethodPost, "/look", &struct{}{})
}

// shared refuses to propose what a node could not see: each would look into a store of its own.
func (r *restoration) shared(id string) error {
	if r.cluster == nil {
		return nil
	}
	var others []string
	for _, n := range r.cluster.Nodes {
		if n.Live && n.Reached && n.Store != "" && n.Store != id {
			others = append(others, n.Node)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the nodes do not share a store: %s, and this command, keep backups in different ones, so not all would see this restore; set snapshot.store to the same place everywhere and restart these nodes; nothing was changed",
			strings.Join(others, ", "))
	}
	return nil
}

// settled refuses while the members are on their way from one generation to the next: another restore came first.
func (r *restoration) settled(record plan.Record) error {
	if r.cluster == nil {
		return nil
	}
	if s := r.cluster.Record; s != nil && s.Generation > record.Generation {
		return fmt.Errorf("another restore came first: the cluster is %s by now; nothing was changed by this one", s.Token())
	}
	for _, n := range r.cluster.Nodes {
		if n.Restore != nil {
			return fmt.Errorf("another restore or recovery came first: node %s is at a %s, asked for by %s; nothing was changed by this one", n.Node, n.Restore.Title, n.Restore.By)
		}
	}
	return nil
}

// verify proves the backup, which touches nothing.
func (r *restoration) verify(ctx context.Context, name string, record plan.Record) (snapshot.Backup, coordinator.Backup, error) {
	if name == latest {
		name = ""
	}
	a := archive{store: r.b.main, cluster: r.b.cfg.Cluster.Name, force: r.flags.foreign, skipped: func(lines []string) {
		fmt.Fprintln(r.c.ErrOrStderr(), strings.Join(lines, "\n"))
	}}
	found, err := a.find(ctx, name, record.Lineage())
	if err != nil {
		return found, coordinator.Backup{}, err
	}
	var checked coordinator.Backup
	err = r.b.progressing(r.c, func(opt snapshot.Options) (err error) {
		a.options = opt
		checked, err = a.Check(ctx, found.Name, record.Lineage(), nil)
		return err
	})
	return found, checked, err
}

// How the last known revision is known.
const (
	fromMembers = "the members here"
	fromBackups = "the newest backup; no member could be asked, so more may be lost"
)

// last returns the last known revision of the cluster, and how it is known.
func (r *restoration) last(ctx context.Context, record plan.Record) (revision int64, source string, err error) {
	if revision = r.shownRevision(); revision > 0 {
		return revision, fromMembers, nil
	}
	revision, err = archive{store: r.b.main, cluster: r.b.cfg.Cluster.Name}.Revision(ctx, record.Lineage())
	if err != nil {
		return 0, "", fmt.Errorf("find the last known revision: %w", err)
	}
	return max(revision, record.Floor()), fromBackups, nil
}

// shownRevision is the highest revision that the members show, 0 where none is known.
func (r *restoration) shownRevision() (revision int64) {
	if r.cluster == nil {
		return 0
	}
	for _, n := range r.cluster.Nodes {
		if n.Etcd != nil {
			revision = max(revision, n.Etcd.Revision)
		}
	}
	return revision
}

// slots says of every slot of the generation whether its disk is here.
func (r *restoration) slots(record plan.Record) []slotState {
	var all []slotState
	for _, slot := range r.founders(record) {
		s := slotState{Slot: slot, Why: "no node could be asked"}
		if r.cluster != nil {
			s.Why = "no live node holds it"
			i := slices.IndexFunc(r.cluster.Nodes, func(n health.NodeStatus) bool { return n.Live && n.Volume != nil && n.Volume.Slot == slot })
			if i >= 0 {
				n := r.cluster.Nodes[i]
				s.Node, s.Why = n.Node, "its disk there has no data of the cluster"
				if n.Record != nil && n.Record.ID == record.ID && n.State != "joining" {
					s.Here, s.Why = true, n.State
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// founders are the slots with which the cluster goes on: those that it has by now, else those that it was founded with.
func (r *restoration) founders(record plan.Record) []string {
	if c := r.cluster; c != nil && c.Record != nil && c.Record.ID == record.ID && len(c.Founders) > 0 {
		return c.Founders
	}
	return record.Charter.Slots()
}

// changed are the slots between which the cluster has changed last, as any node here knows: there may be members of them
// beside those that it goes on with.
func (r *restoration) changed(record plan.Record) (slots []string) {
	if r.cluster == nil {
		return nil
	}
	for _, n := range r.cluster.Nodes {
		if n.Set != nil && n.Set.Record == record.ID {
			slots = slices.Concat(slots, n.Set.Slots, n.Set.From)
		}
	}
	return slots
}

// confirm asks the operator, and takes no silence for a yes.
func (r *restoration) confirm(ctx context.Context) error {
	if r.flags.yes {
		return nil
	}
	return confirm(ctx, r.c, "Restore?")
}

// abort ends the restore that is under way, unless it is too late.
func (r *restoration) abort(ctx context.Context) error {
	_, known, err := r.knows(ctx)
	if err != nil {
		return err
	}
	if known.Restore == nil {
		return fmt.Errorf("no restore or recovery of cluster %s is under way; the store knows it as %s", r.b.cfg.Cluster.Name, known.Record.Token())
	}
	if r.flags.dryRun {
		return nothingChanged(r.c, fmt.Sprintf("would abort the %s, asked for by %s, if it has not passed the point of no return by then", known.Restore.Title(), known.Restore.By))
	}
	record, err := r.records.Abort(ctx, *known.Restore, plan.Abort{ID: known.Restore.ID, Why: "aborted by " + operator()})
	if err != nil {
		return fmt.Errorf("abort the %s: %w", known.Restore.Title(), err)
	}
	r.poke(ctx)
	if record != nil {
		return fmt.Errorf("too late: the %s passed the point of no return, and the cluster goes on as %s", known.Restore.Title(), record.Token())
	}
	if r.b.json() {
		return writeIndented(r.c.OutOrStdout(), map[string]string{"aborted": known.Restore.Title()})
	}
	fmt.Fprintf(r.c.OutOrStdout(), "aborted the %s; the cluster goes on as it was\n", known.Restore.Title())
	return nil
}

// addDirectoryFlags adds the flags of `restore --to`, but for that of foreign, which other restores have, too.
func addDirectoryFlags(fs *pflag.FlagSet, d *backups.Directory) {
	fs.StringVar(&d.MemberName, "member-name", "",
		"with --to: the member's `name` in etcd (default cluster.member-name with the slot)")
	fs.StringVar(&d.Slot, "slot", "", "with --to: the `slot` in the member's name (default the first of cluster.slots)")
	fs.StringVar(&d.InitialCluster, "initial-cluster", "",
		"with --to: `name=URL,...` of all members of the new cluster (default this one alone at "+backups.DefaultPeerURL+")")
	fs.StringVar(&d.Token, "token", "",
		"with --to: the cluster's `token`, the same for all its members and never used before (default made of the backup's name)")
	fs.Int64Var(&d.Bump, "revision-bump", -1,
		"with --to: raise the revision by this `number` (default restore.revision-bump; 0 keeps it, for a copy to look into)")
}
