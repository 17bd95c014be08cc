package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/etcdmanager"
)

// etcdManagerName is the name of the command. A binary with this name runs only the command.
const etcdManagerName = "etcd-manager"

func newEtcdManagerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   etcdManagerName + " [flags]",
		Short: "Run a node with the flags and environment of etcd-manager, as kops writes them",
		Long: "Run a node with the flags and environment of etcd-manager, as kops writes them. A binary or a link that\n" +
			"is called etcd-manager does the same.\n\n" +
			"holdfast does what each flag asks for. A flag without a meaning here is a warning at the start; a flag\n" +
			"whose meaning holdfast cannot honor is an error, with exit code 64. HOLDFAST_… variables override the\n" +
			"flags, so every key can be set, for example HOLDFAST_LOG_LEVEL=debug. --print-config prints the result\n" +
			"as a configuration file for `holdfast run`, and --plan says what a takeover of this machine would do. A\n" +
			"volume with etcd-manager's data is claimed once no etcd runs on it (cluster.adopt). See\n" +
			"deploy/kops/README.md.\n\n" +
			"Flags, with the key that each sets:\n" + strings.TrimRight(etcdmanager.Usage(), "\n"),
		DisableFlagParsing: true, // etcd-manager's flags have the syntax of Go's package flag
		RunE: func(c *cobra.Command, args []string) error {
			o, err := etcdmanager.Parse(args)
			if errors.Is(err, etcdmanager.ErrHelp) {
				return c.Help()
			}
			if err != nil {
				return usage(fmt.Errorf("%w; `holdfast etcd-manager --help` shows the flags", err))
			}
			return runAsEtcdManager(c, o)
		},
	}
}

func runAsEtcdManager(c *cobra.Command, o etcdmanager.Options) error {
	if o.EnvFile != "" {
		if err := etcdmanager.SetEnv(o.EnvFile); err != nil {
			return usage(err)
		}
	}
	machine, err := etcdmanager.ThisMachine(o)
	if err != nil {
		return err
	}
	load := func() (*config.Loaded, error) { return loadMeaning(o, machine) }
	loaded, err := load()
	if err != nil {
		return err
	}
	if !o.PrintConfig && !o.Plan {
		return run(c, loaded, load)
	}
	for _, w := range loaded.Warnings {
		fmt.Fprintf(c.ErrOrStderr(), "warning: %s\n", w)
	}
	if o.PrintConfig {
		return loaded.WriteYAML(c.OutOrStdout())
	}
	return planTakeover(c, loaded, "", output{})
}

// loadMeaning translates etcd-manager's options and the environment into a configuration. It also sets the environment
// variables where the S3 client looks for credentials.
func loadMeaning(o etcdmanager.Options, machine etcdmanager.Machine) (*config.Loaded, error) {
	meaning, err := etcdmanager.Translate(o, os.Environ(), machine)
	if err != nil {
		return nil, err
	}
	for name, value := range meaning.Environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	loaded, err := config.LoadSettings(meaning.Settings, os.Environ())
	if err != nil {
		return nil, err
	}
	loaded.Warnings = append(meaning.Warnings, loaded.Warnings...)
	return loaded, nil
}
