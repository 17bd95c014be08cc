package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/auth"
)

// authDiffers is the exit code of `auth plan` if there is something to do.
const authDiffers = exitCode(2)

func newAuthCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "auth",
		Short: "Manage etcd's users and roles from the file auth.file",
	}, newAuthCheckCommand(), newAuthPlanCommand(), newAuthApplyCommand())
}

func newAuthCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a file of users and roles, and report everything that is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			w, err := auth.Read(args[0])
			if err != nil {
				return fmt.Errorf("check users and roles: %d wrong\n%w", len(config.Errors(err)), err)
			}
			w.ReadPasswords()
			var errs []error
			for _, u := range w.Users {
				if u.Unreadable != "" {
					errs = append(errs, fmt.Errorf("user %s: %s", u.Name, u.Unreadable))
				}
			}
			if len(errs) > 0 {
				return fmt.Errorf("check users and roles: %d wrong\n%w", len(errs), errors.Join(errs...))
			}
			return say(c, "%s: ok: %d users, %d roles, auth %s, others: %s\n", args[0], len(w.Users),
				len(w.Roles), map[bool]string{true: "enabled", false: "disabled"}[w.Enabled], w.Others)
		},
	}
}

func newAuthPlanCommand() *cobra.Command {
	var format output
	c := asking(&cobra.Command{
		Use:   "plan",
		Short: "Show what holdfast would change in etcd to match auth.file",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		r, err := askAuth(c, client, "GET /auth")
		if err != nil {
			return err
		}
		if err := format.write(c, r, show.Auth(r, "has to be done")); err != nil {
			return err
		}
		if len(r.Steps)+len(r.Problems) > 0 {
			return authDiffers
		}
		return nil
	})
	return format.add(c)
}

func newAuthApplyCommand() *cobra.Command {
	var dryRun, yes bool
	var format output
	c := asking(&cobra.Command{
		Use:   "apply",
		Short: "Change etcd's users and roles to match auth.file, now",
	}, func(c *cobra.Command, client *control.Client, _ []string) error {
		if dryRun || !yes {
			r, err := askAuth(c, client, "GET /auth")
			if err == nil && r.Obstacle != "" {
				err = fmt.Errorf("change users and roles: %s", r.Obstacle)
			}
			if err != nil {
				return err
			}
			if !format.json() || dryRun || len(r.Steps) == 0 {
				if err := format.write(c, r, show.Auth(r, "would be done")); err != nil {
					return err
				}
			}
			switch {
			case dryRun && format.json():
				return nil
			case dryRun:
				return say(c, "nothing was changed (--dry-run)\n")
			case len(r.Steps) == 0:
				return exitIf(len(r.Problems) > 0, nil)
			}
			if err := confirm(c.Context(), c, "Change etcd's users and roles?"); err != nil {
				return err
			}
		}
		r, err := askAuth(c, client, "POST /auth")
		if err != nil {
			return err
		}
		return exitIf(len(r.Problems) > 0, format.write(c, r, show.Auth(r, "done")))
	})
	addDryRun(c, &dryRun)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return format.add(c)
}

// askAuth asks the node on this machine for the steps (GET), or to make them (POST).
func askAuth(c *cobra.Command, client *control.Client, route string) (r auth.Report, err error) {
	if err := client.Get(c.Context(), route, &r); err != nil {
		return r, fmt.Errorf("users and roles: %w", err)
	}
	return r, nil
}
