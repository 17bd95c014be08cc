// Command holdfast is a node of an etcd cluster in one binary. See `holdfast help`.
package main

import (
	"os"

	"holdfast/cmd"
)

func main() { os.Exit(cmd.Execute()) }
