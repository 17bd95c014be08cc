package gorunner

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// The exit codes of its own are those of shells, which nobody takes for the command's.
const (
	exitUsage    = 64  // EX_USAGE of sysexits.h
	exitStart    = 126 // the command could not be started
	exitNotFound = 127 // there is no such command
	exitSignal   = 128 // and the number of the signal that ended it
)

const usage = `go-runner runs a command and keeps what it prints.

  go-runner [--log-file=FILE] [--also-stdout] [--redirect-stderr=false] COMMAND [ARGS…]

  --log-file FILE     append the command's output to FILE
  --also-stdout       print it as well
  --redirect-stderr   what the command prints as errors goes where its output goes (default true)
`

// Run runs the command line args, without the program's own name, and returns the exit code: the command's, or 128 and
// the number of the signal that ended it. Every signal that a program can be sent goes to the command.
func Run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("go-runner", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	logFile := fs.String("log-file", "", "")
	alsoStdout := fs.Bool("also-stdout", false, "")
	redirect := fs.Bool("redirect-stderr", true, "")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && fs.NArg() == 0:
		err = errors.New("no command to run")
	}
	if err != nil {
		fmt.Fprintf(stderr, "go-runner: %v\n%s", err, usage)
		return exitUsage
	}
	out := stdout
	if *logFile != "" {
		f, err := os.OpenFile(*logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			fmt.Fprintf(stderr, "go-runner: --log-file: %v\n", err)
			return exitStart
		}
		defer f.Close()
		if out = f; *alsoStdout {
			out = both{f, stdout}
		}
	}
	cmd := exec.Command(fs.Arg(0), fs.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, stderr
	if *redirect {
		cmd.Stderr = out // the same value: package exec then has one pipe for both, so lines stay in order
	}
	return run(cmd, stderr)
}

// run runs a command to its end.
func run(cmd *exec.Cmd, stderr io.Writer) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals) // before the start: none may end only this process
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(stderr, "go-runner: %v\n", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return exitNotFound
		}
		return exitStart
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGCHLD && s != syscall.SIGURG { // of its own children, and of Go's scheduler
				_ = cmd.Process.Signal(s) // it may have ended meanwhile
			}
		case err := <-ended:
			return code(err, cmd.ProcessState, stderr)
		}
	}
}

// code is the exit code of a command that has ended.
func code(err error, state *os.ProcessState, stderr io.Writer) int {
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		fmt.Fprintf(stderr, "go-runner: %v\n", err) // its output could not be copied
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	if c := state.ExitCode(); c != 0 || err == nil {
		return c
	}
	return 1
}

// both writes to a file and to standard output. Where one fails, the other continues: a full disk must not end the
// command whose log it was, nor keep it from being read elsewhere.
type both struct{ file, stdout io.Writer }

// Write implements [io.Writer].
func (b both) Write(data []byte) (int, error) {
	_, err := b.file.Write(data)
	if _, other := b.stdout.Write(data); err != nil && other != nil {
		return 0, errors.Join(err, other)
	}
	return len(data), nil
}
