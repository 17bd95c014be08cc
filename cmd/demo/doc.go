// Package demo runs a cluster of nodes on this machine and shows its status: each node is a process of its own with its
// own configuration, which lies in the demo's directory for everybody to read.
//
// The directory is planned once (dir.go) and resumed by the next demo; a node that dies is started again (demo.go); the
// terminal is redrawn, or what changes is printed (screen.go).
package demo
