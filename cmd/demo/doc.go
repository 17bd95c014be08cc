// Package demo runs a cluster of nodes on this machine and shows its status. Each node is a process of its own. Its
// configuration is in the demo's directory, for people to read.
//
// dir.go plans the directory once, and the next demo resumes it. demo.go runs the nodes, and starts again a node that
// dies. screen.go redraws the terminal or, without a terminal, prints what changes.
package demo
