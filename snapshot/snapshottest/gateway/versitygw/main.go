// Command versitygw is the S3 gateway with the only backend that the tests use. The gateway's own command has all of
// them, and the gateway's tests, and takes twice as long to compile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until the process is killed. The limits and the options of the backend are the defaults of the gateway's
// own command.
func run() error {
	address := flag.String("address", "", "to listen on")
	config := embedgw.Config{
		MaxConnections: 250_000, MaxRequests: 100_000, MultipartMaxParts: 10_000, Quiet: true, KeepAlive: true,
	}
	flag.StringVar(&config.RootUserAccess, "access", "", "key of the only account")
	flag.StringVar(&config.RootUserSecret, "secret", "", "secret of the only account")
	flag.StringVar(&config.Region, "region", "", "of the buckets")
	versions := flag.String("versions", "", "directory for old versions of objects")
	flag.Parse()
	config.Ports = []string{*address}

	options := posix.PosixOpts{
		VersioningDir: *versions, Concurrency: 5000, IOBufferSize: 1 << 20, CopyObjectThreshold: 5 << 30,
	}
	options.SetNewDirPerm(0o755)
	options.SetNewFilePerm(0o644)
	files, err := posix.New(flag.Arg(0), meta.XattrMeta{}, options)
	if err != nil {
		return fmt.Errorf("open the backend in %s: %w", flag.Arg(0), err)
	}
	return embedgw.RunVersityGW(context.Background(), files, &config)
}
