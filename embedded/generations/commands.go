package generations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// commandTime is how long a command in the store stays valid, by the store's time. Anyone who gives one expects it to
// run within seconds. A restore that runs hours later discards everything written since.
const commandTime = time.Hour

// requests returns the restores that other programs have requested by a command. Over marks those that will never run.
// A command that a proposal has named runs only once. A command older than the current generation was meant for a
// cluster that no longer exists. And one that has waited too long would surprise. A command named by an open proposal
// is in progress and not returned.
func (r *Records) requests(ctx context.Context, l listing, s plan.Store, since time.Time) ([]plan.Request, error) {
	commands, err := snapshot.Commands(ctx, r.Store)
	if err != nil || len(commands) == 0 {
		return nil, err
	}
	proposed, err := r.proposed(ctx, l)
	if err != nil {
		return nil, err
	}
	var all []plan.Request
	for _, c := range commands {
		q := plan.Request{Command: c.Name, Backup: c.Backup, By: "the command " + c.Name + " in the store",
			Problem: c.Problem}
		switch p, ok := proposed[c.Name]; {
		case c.Problem == "" && c.Backup == "":
			continue // it asks for something else
		case ok && s.Record != nil && s.Record.Restore != nil && s.Record.Restore.Command == c.Name:
			_ = r.Dismiss(ctx, c.Name) // the concluding node did not; it never runs again, even if it cannot be deleted
			continue
		case ok && s.Restore != nil && s.Restore.ID == p:
			continue // in progress
		case ok:
			q.Problem, q.Over = "it was proposed before and never runs again"+aborted(s, p), true
		case c.Problem == "" && !c.Stored.After(since):
			q.Problem, q.Over = "it is older than the present generation of the cluster, and so is what it was meant for", true
		case r.older(fmt.Sprintf("%s %d", c.Name, c.Stored.UnixNano()), c.Stored, commandTime, l.newest):
			late := fmt.Sprintf("it has been in the store for longer than %s", commandTime)
			q.Problem, q.Over = cmp.Or(c.Problem, late), true
		case c.Problem != "":
			q.Problem += fmt.Sprintf("; delete it with `etcd-manager-ctl delete-command %s`", c.Name)
		}
		all = append(all, q)
	}
	return all, nil
}

// aborted says why a proposal was aborted, as far as that is known.
func aborted(s plan.Store, id string) string {
	for _, a := range s.Aborted {
		if a.ID == id {
			return ": its restore was aborted, " + a.Why
		}
	}
	return ""
}

// Dismiss deletes a command.
func (r *Records) Dismiss(ctx context.Context, command string) error {
	return snapshot.DeleteCommand(ctx, r.Store, command)
}

// proposed returns the ID of the proposal that each command has led to, by command.
func (r *Records) proposed(ctx context.Context, l listing) (map[string]string, error) {
	all := map[string]string{}
	for _, o := range l.restores {
		p, err := r.readRestore(ctx, o.Object)
		if err != nil {
			return nil, err
		}
		if p.value.Command != "" {
			all[p.value.Command] = p.value.ID
		}
	}
	return all, nil
}
