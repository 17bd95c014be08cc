package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// commandSuffix ends the names of the objects that hold commands.
const commandSuffix = "/_command.json"

// requests returns the restores that other programs have asked for with a command. A command that a proposal names
// never runs again, and one that is older than the present generation was for a cluster that is no more: it may have
// waited in the store for years. Of both kinds the operator is told.
func (r *records) requests(ctx context.Context, l listing, s plan.Store, since time.Time) ([]plan.Request, error) {
	objects, err := r.store.List(ctx, "control/")
	if err != nil {
		return nil, fmt.Errorf("list the commands in the store: %w", err)
	}
	given := map[string]time.Time{}
	for _, o := range objects {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(o.Name, "control/"), commandSuffix); ok {
			given[name] = o.Modified
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	proposed, err := r.proposed(ctx, l)
	if err != nil {
		return nil, err
	}
	commands, err := snapshot.Commands(ctx, r.store)
	if err != nil {
		return nil, err
	}
	var all []plan.Request
	for _, c := range commands {
		q := plan.Request{Command: c.Name, Backup: c.Backup, By: "the command " + c.Name + " in the store", Problem: c.Problem}
		const remove = "; if it is not wanted any more, remove it with `etcd-manager-ctl delete-command`"
		switch p, ok := proposed[c.Name]; {
		case c.Problem == "" && c.Backup == "":
			continue // it asks for something else
		case ok && s.Record.Restore != nil && s.Record.Restore.Command == c.Name:
			if err := snapshot.DeleteCommand(ctx, r.store, c.Name); err != nil { // whoever concluded it could not
				return nil, err
			}
			continue
		case ok && s.Restore != nil && s.Restore.ID == p:
			continue // under way
		case ok:
			q.Problem = "it was proposed before and never runs again" + remove
		case q.Problem == "" && !given[c.Name].After(since):
			q.Problem = "it is older than the present generation of the cluster, and so is what it was meant for" + remove
		}
		all = append(all, q)
	}
	return all, nil
}

// proposed returns the IDs of the proposals that commands have led to, by the command.
func (r *records) proposed(ctx context.Context, l listing) (map[string]string, error) {
	all := map[string]string{}
	for _, o := range l.restores {
		p, err := r.readRestore(ctx, o.Object)
		if err != nil {
			return nil, err
		}
		if p.Command != "" {
			all[p.Command] = p.ID
		}
	}
	return all, nil
}
