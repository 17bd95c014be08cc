package cmd

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"

	"holdfast/cmd/certificates"
)

func newEtcdctlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "etcdctl [--config FILE] [etcdctl's own arguments]",
		Short:              "etcd's own client, preset to this node's endpoint",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			file, args, err := cutConfig(args)
			if err != nil {
				return err
			}
			if err := certificates.PresetEtcdctl(c.Context(), file, args); err != nil {
				return err
			}
			signal.Reset(syscall.SIGINT, syscall.SIGTERM)  // etcdctl handles them itself
			os.Args = append([]string{"etcdctl"}, args...) // etcdctl's command line reads os.Args
			cobra.EnablePrefixMatching = true              // as in etcdctl
			return exitIf(ctlv3.Start() != nil, nil)       // it has printed the error
		},
	}
}

// cutConfig removes holdfast's --config from the front of the arguments.
func cutConfig(args []string) (file string, rest []string, err error) {
	switch {
	case len(args) > 1 && (args[0] == "--config" || args[0] == "-c"):
		file, rest = args[1], args[2:]
	case len(args) > 0 && strings.HasPrefix(args[0], "--config="):
		file, rest = strings.TrimPrefix(args[0], "--config="), args[1:]
	default:
		return "", args, nil
	}
	if file == "" {
		err = usage(errors.New("--config: must not be empty"))
	}
	return file, rest, err
}

func newEtcdutlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "etcdutl",
		Short: "etcd's own tool for data directories and snapshot files",
	}
	fs := c.PersistentFlags()
	addLockTimeout(fs)
	fs.StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "`format`: fields, json, protobuf, simple or table")
	return group(c, etcdutl.NewDefragCommand(), etcdutl.NewSnapshotCommand(), etcdutl.NewHashKVCommand(),
		etcdutl.NewVersionCommand(), etcdutl.NewMigrateCommand())
}
