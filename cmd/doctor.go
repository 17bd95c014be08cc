package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

// doctorFlags are the flags of `holdfast doctor`.
type doctorFlags struct {
	fix, yes, dryRun bool
	format           output
}

func newDoctorCommand() *cobra.Command {
	var f doctorFlags
	c := having(&cobra.Command{
		Use:   "doctor",
		Short: "Show what is wrong with the cluster, what it means, and what to do",
	}, func(c *cobra.Command, cfg config.Config, client *control.Client, _ []string) error {
		if !f.fix {
			if err := idle(c, "does nothing without --fix, whose questions it answers", "yes"); err != nil {
				return err
			}
		}
		return f.run(c, cfg, client)
	})
	c.Flags().BoolVar(&f.fix, "fix", false, "repair what can be repaired, after asking for each repair")
	c.Flags().BoolVar(&f.yes, "yes", false, "with --fix: do not ask")
	f.format.add(c)
	return addDryRun(c, &f.dryRun)
}

func (f doctorFlags) run(c *cobra.Command, cfg config.Config, client *control.Client) error {
	r, err := askDoctor(c.Context(), cfg, client)
	if err != nil {
		return noAnswer(c, err)
	}
	if !f.format.json() {
		if err := say(c, "%s", show.Doctor(r)); err != nil {
			return err
		}
	}
	if f.fix || f.dryRun {
		fixed, err := f.repair(c, client, r)
		if err != nil {
			return err
		}
		if len(fixed) > 0 {
			if r, err = askDoctor(c.Context(), cfg, client); err != nil {
				return err
			}
			r.Fixed = fixed
		}
	}
	if f.format.json() {
		if err := show.JSON(c.OutOrStdout(), r); err != nil {
			return err
		}
	}
	if code := worst(r.Findings); code > 0 {
		return code
	}
	return nil
}

// askDoctor gets the node's report. If no node answers, it judges the files and the store itself.
func askDoctor(ctx context.Context, cfg config.Config, client *control.Client) (r health.Report, err error) {
	err = client.Get(ctx, "GET /doctor", &r)
	if alone(cfg, err) {
		return node.FactsAlone(ctx, cfg, err).Report(cfg.Cluster.Slots), nil
	}
	return r, err
}

// repair offers each repair and returns the IDs of those that were made. It prints to standard error, because standard
// output may be JSON.
func (f doctorFlags) repair(c *cobra.Command, client *control.Client, r health.Report) (fixed []string, err error) {
	say := func(format string, args ...any) { fmt.Fprintf(c.ErrOrStderr(), format+"\n", args...) }
	fixes := slices.DeleteFunc(slices.Clone(r.Findings), func(found health.Finding) bool { return found.Fix == nil })
	if len(fixes) == 0 {
		say("there is nothing that --fix could repair")
		return nil, nil
	}
	if f.dryRun {
		for _, found := range fixes {
			say("would %s", found.Fix.ID)
		}
		say("nothing was changed (--dry-run)")
		return nil, nil
	}
	lines := terminalOf(c)
	if lines == nil && !f.yes {
		return nil, errors.New("there is no terminal to ask on: say --yes if all that --dry-run lists is to be done; " +
			"nothing was changed")
	}
	for _, found := range fixes {
		if !f.yes {
			yes, err := askYes(c.Context(), c.ErrOrStderr(), lines, found.Fix.Question)
			if err != nil {
				return fixed, err
			}
			if !yes {
				say("left as it is")
				continue
			}
		}
		if err := client.Do(c.Context(), "POST /doctor", control.Args{"fix": found.Fix.ID}); err != nil {
			return fixed, fmt.Errorf("%s: %w", found.Fix.ID, err)
		}
		say("done: %s", found.Fix.ID)
		fixed = append(fixed, found.Fix.ID)
	}
	return fixed, nil
}

// worst returns the exit code: 2 if any finding is degrading or critical, 1 if any is a warning, and 0 otherwise.
func worst(all []health.Finding) exitCode {
	return map[health.Severity]exitCode{health.Critical: 2, health.Degrading: 2, health.Warning: 1}[health.Worst(all)]
}
