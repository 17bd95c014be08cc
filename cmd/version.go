package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
)

// version is set by the linker: -ldflags "-X holdfast/cmd.version=v1.2.3".
var version = ""

// buildVersion returns the version of this build, by default the one that the Go toolchain recorded.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of holdfast, its etcd, and Go",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return say(c, "holdfast %s\netcd     %s\ngo       %s %s/%s\n", buildVersion(), etcdversion.Version,
				runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
