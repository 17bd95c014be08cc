package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/health"
)

// loadClient reads the configuration and returns it with a client of the node that it names.
func loadClient(c *cobra.Command) (config.Config, *control.Client, error) {
	l, err := config.Load("", c.Flags(), os.Environ())
	if err != nil {
		return config.Config{}, nil, err
	}
	client, err := control.Open(l.Config.Control)
	return l.Config, client, err
}

// having gives a command that needs the configuration and a node what it does.
func having(c *cobra.Command,
	run func(c *cobra.Command, cfg config.Config, node *control.Client, args []string) error) *cobra.Command {
	readsConfig(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, client, err := loadClient(c)
		if err != nil {
			return err
		}
		return run(c, cfg, client, args)
	}
	return c
}

// asking gives a command that only asks a node what it does.
func asking(c *cobra.Command,
	ask func(c *cobra.Command, node *control.Client, args []string) error) *cobra.Command {
	return having(c, func(c *cobra.Command, _ config.Config, node *control.Client, args []string) error {
		return ask(c, node, args)
	})
}

// configured gives a command that needs only the configuration what it does.
func configured(c *cobra.Command,
	run func(c *cobra.Command, l *config.Loaded, args []string) error) *cobra.Command {
	readsConfig(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := config.Load("", c.Flags(), os.Environ())
		if err != nil {
			return err
		}
		return run(c, l, args)
	}
	return c
}

// alone reports whether a command may look at this machine itself, because no node answers here. A node elsewhere that
// does not answer says nothing about this machine.
func alone(cfg config.Config, err error) bool {
	return errors.Is(err, control.ErrUnreachable) && cfg.Control.Remote.Address == ""
}

// noAnswer prints why a node did not answer, and returns the exit code for that. It differs from those that tell what a
// node has answered.
func noAnswer(c *cobra.Command, err error) error {
	fmt.Fprintf(c.ErrOrStderr(), "holdfast: %v\n", err)
	return exitCode(3)
}

// selfOf returns the status of the node itself.
func selfOf(ctx context.Context, c *control.Client) (health.NodeStatus, error) {
	var s health.ClusterStatus
	if err := c.Get(ctx, "GET /status", &s); err != nil {
		return health.NodeStatus{}, err
	}
	if self := s.Self(); self != nil {
		return *self, nil
	}
	return health.NodeStatus{}, fmt.Errorf("the node on %s does not know itself", c.At)
}
