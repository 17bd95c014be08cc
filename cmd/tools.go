package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
)

func newEtcdctlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "etcdctl [--config FILE] [etcdctl's own arguments]",
		Short: "etcd's own client, preset to this node's endpoint",
		Long: "etcd's own client. Unless --endpoints or ETCDCTL_ENDPOINTS says otherwise, it talks to the node of the\n" +
			"configuration; certificates likewise. Where holdfast issues them (tls.mode ca and auto), a certificate for a\n" +
			"day is issued into tls.dir, which only the node's user can do. It is for the user root of etcd's own\n" +
			"authentication.",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			file, args := cutConfig(args)
			if err := presetEtcdctl(c.Context(), file, args); err != nil {
				return err
			}
			signal.Reset(syscall.SIGINT, syscall.SIGTERM)  // it is etcdctl's to end on them
			os.Args = append([]string{"etcdctl"}, args...) // its command line is a package variable that reads os.Args
			if err := ctlv3.Start(); err != nil {
				return err
			}
			return nil
		},
	}
}

// cutConfig takes our own --config off the front of the arguments.
func cutConfig(args []string) (file string, rest []string) {
	if len(args) > 1 && (args[0] == "--config" || args[0] == "-c") {
		return args[1], args[2:]
	}
	if len(args) > 0 {
		if file, ok := strings.CutPrefix(args[0], "--config="); ok {
			return file, args[1:]
		}
	}
	return "", args
}

// presetEtcdctl fills in, through the environment, what the user did not say. Without a usable configuration
// of ours etcdctl works as it always does, unless a file was named.
func presetEtcdctl(ctx context.Context, file string, args []string) error {
	l, err := config.Load(file, nil, os.Environ())
	if err != nil {
		if file != "" {
			return err
		}
		return nil
	}
	e := l.Config.Etcd
	certificate, key := ifSet(e.TrustedCAFile, e.CertFile), ifSet(e.TrustedCAFile, e.KeyFile)
	if l.Config.TLS.Issues() && os.Getenv("ETCDCTL_CERT") == "" && !given(args, "--cert") {
		// The server's own certificate would do, but for etcd it is nobody's.
		if certificate, err = certificates.Etcdctl(ctx, l.Config, time.Now()); err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: no certificate for etcdctl: %v\n", err)
		}
		key = certificate
	}
	for _, preset := range []struct{ flag, variable, value string }{
		{"--endpoints", "ETCDCTL_ENDPOINTS", strings.Join(e.AdvertiseClientURLs, ",")},
		{"--cacert", "ETCDCTL_CACERT", e.TrustedCAFile},
		{"--cert", "ETCDCTL_CERT", certificate},
		{"--key", "ETCDCTL_KEY", key},
	} {
		if preset.value == "" || os.Getenv(preset.variable) != "" || given(args, preset.flag) {
			continue
		}
		if err := os.Setenv(preset.variable, preset.value); err != nil {
			return err
		}
	}
	return nil
}

// ifSet returns value where the server asks clients for certificates, which it does once it has a CA.
func ifSet(ca, value string) string {
	if ca == "" {
		return ""
	}
	return value
}

func given(args []string, flag string) bool {
	for _, a := range args {
		if a == flag || strings.HasPrefix(a, flag+"=") {
			return true
		}
	}
	return false
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
