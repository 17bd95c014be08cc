package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/etcdmanager"
	"holdfast/volume"
)

// etcdManagerName is the command, and the name under which the binary is just that.
const etcdManagerName = "etcd-manager"

func newEtcdManagerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   etcdManagerName + " [flags]",
		Short: "Run a node with the flags and environment of etcd-manager, as kops writes them",
		Long: "Run a node with the flags and environment of etcd-manager, as kops writes them. A binary or a link that is\n" +
			"called etcd-manager does the same.\n\n" +
			"What a flag asks for is done. A flag that means nothing here is a warning at the start; one whose meaning\n" +
			"cannot be kept is an error, with exit code 64. HOLDFAST_… variables go before the flags, so every key can be\n" +
			"set, as with HOLDFAST_LOG_LEVEL=debug. --print-config prints all of it as a configuration file for\n" +
			"`holdfast run`, and --plan says what a takeover of this machine would do. A volume with etcd-manager's data is\n" +
			"claimed once no etcd runs on it (cluster.adopt). See deploy/kops/README.md.\n\n" +
			"Flags, with the key that each sets:\n" + strings.TrimRight(etcdmanager.Usage(), "\n"),
		DisableFlagParsing: true, // they are written as Go's package flag takes them
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
		variables, err := etcdmanager.ReadEnvFile(o.EnvFile)
		if err != nil {
			return usage(err)
		}
		for _, pair := range variables {
			name, value, _ := strings.Cut(pair, "=")
			if err := os.Setenv(name, value); err != nil {
				return fmt.Errorf("--env-file: %w", err)
			}
		}
	}
	machine, err := thisMachine(o)
	if err != nil {
		return err
	}
	load := func() (*config.Loaded, error) { return loadMeaning(o, machine) }
	loaded, err := load()
	if err != nil {
		return err
	}
	foreign := foreignDirectory(loaded.Config, machine)
	if o.PrintConfig {
		if foreign != nil {
			loaded.Warnings = append(loaded.Warnings, foreign.Error())
		}
		for _, w := range loaded.Warnings {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s\n", w)
		}
		return loaded.WriteYAML(c.OutOrStdout())
	}
	if foreign != nil {
		return foreign
	}
	if o.Plan {
		for _, w := range loaded.Warnings {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s\n", w)
		}
		return planTakeover(c, loaded, "", output{})
	}
	return run(c, loaded, load)
}

// loadMeaning is the configuration that options mean on a machine, with what the environment says now.
func loadMeaning(o etcdmanager.Options, machine etcdmanager.Machine) (*config.Loaded, error) {
	meaning, err := etcdmanager.Translate(o, os.Environ(), machine)
	if err != nil {
		return nil, err
	}
	for name, value := range meaning.Environment { // where S3's SDK looks for credentials
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

// thisMachine finds out what the flags do not say.
func thisMachine(o etcdmanager.Options) (m etcdmanager.Machine, err error) {
	if ip, err := config.OwnAddress(); err == nil {
		m.Address = ip.String()
	}
	if prefix := o.Prefix(); prefix != "" {
		found, err := filepath.Glob(filepath.Join(o.DisksDir(), "*", "mnt"))
		if err != nil {
			return m, fmt.Errorf("look for volumes: %w", err)
		}
		for _, dir := range found {
			if name := filepath.Base(filepath.Dir(dir)); strings.HasPrefix(name, prefix) {
				m.Disks = append(m.Disks, name)
				if m.Rooted, err = exists(filepath.Join(dir, etcdmanager.RootName)); err != nil {
					return m, fmt.Errorf("look for volumes: %w", err)
				}
			}
		}
	}
	if o.VolumeProvider == "" && o.DataDir != "" {
		for _, name := range append(managersNames, volume.IdentityName) {
			has, err := exists(filepath.Join(o.DataDir, name))
			if err != nil {
				return m, fmt.Errorf("look for data in --data-dir: %w", err)
			}
			m.Volume = m.Volume || has
		}
	}
	return m, nil
}

// foreignDirectory refuses a disk that has both a volume of holdfast's own layout and the data of etcd-manager: only
// the operator knows which of the two is the cluster.
func foreignDirectory(cfg config.Config, m etcdmanager.Machine) error {
	if !m.Rooted || cfg.Volume.Provider != volume.ProviderLocal {
		return nil
	}
	root := cfg.Volume.Local.Root
	for _, name := range managersNames {
		switch has, err := exists(filepath.Join(filepath.Dir(root), name)); {
		case err != nil:
			return fmt.Errorf("look for data of etcd-manager: %w", err)
		case has:
			return fmt.Errorf("%s holds the data of etcd-manager's cluster, and volumes of holdfast's in %s: nothing is "+
				"touched; move away the one that is not the cluster's", filepath.Dir(root), root)
		}
	}
	return nil
}

// managersNames are by what etcd-manager itself tells whether a disk is in use.
var managersNames = []string{"state", "data"}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
