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

// The exit codes of go-runner itself are those of shells.
const (
	exitUsage    = 64  // EX_USAGE of sysexits.h
	exitStart    = 126 // the command could not be started
	exitNotFound = 127 // there is no such command
	exitSignal   = 128 // plus the number of the signal that ended the command
)

const usage = `go-runner runs a command and keeps what it prints.

  go-runner [--log-file=FILE] [--also-stdout] [--redirect-stderr=false] COMMAND [ARGS…]

  --log-file FILE     append the command's output to FILE
  --also-stdout       print it as well
  --redirect-stderr   what the command prints as errors goes where its output goes (default true)
`

// Run runs the command line args, without the program's name. It returns the command's exit code, or 128 plus the
// number of the signal that ended it. It forwards every signal that can be caught to the command.
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
		cmd.Stderr = out // the same value, so that package exec uses one pipe for both, and lines stay in order
	}
	return run(cmd, stderr)
}

func run(cmd *exec.Cmd, stderr io.Writer) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals) // before the start, so that no signal ends only this process
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
			if s != syscall.SIGCHLD && s != syscall.SIGURG { // from its own child, and from Go's scheduler
				_ = cmd.Process.Signal(s) // the command may have ended meanwhile
			}
		case err := <-ended:
			return code(err, cmd.ProcessState, stderr)
		}
	}
}

// code returns the exit code for a command that has ended.
func code(err error, state *os.ProcessState, stderr io.Writer) int {
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		fmt.Fprintf(stderr, "go-runner: %v\n", err) // the output could not be copied
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	if c := state.ExitCode(); c != 0 || err == nil {
		return c
	}
	return 1
}

// both writes to a file and to standard output. If one fails, the other continues. A full disk must neither end the
// command nor keep its output from standard output.
type both struct{ file, stdout io.Writer }

func (b both) Write(data []byte) (int, error) {
	_, err := b.file.Write(data)
	if _, other := b.stdout.Write(data); err != nil && other != nil {
		return 0, errors.Join(err, other)
	}
	return len(data), nil
}
