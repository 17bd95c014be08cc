package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ClockVariable names the file in the environment of a process of [BuildWithClock].
const ClockVariable = "HOLDFAST_TEST_CLOCK"

// clockMain is holdfast's main with a wall clock that is ahead by the seconds in a file. The file is read all the time,
// so that the clock can be set while the process runs.
const clockMain = `package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"time"
	_ "unsafe"

	"holdfast/cmd"
)

//go:linkname ahead runtime.wallAhead
var ahead int64

func look() {
	if text, err := os.ReadFile(os.Getenv("` + ClockVariable + `")); err == nil {
		if seconds, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			atomic.StoreInt64(&ahead, seconds)
		}
	}
}

func main() {
	look()
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			look()
		}
	}()
	os.Exit(cmd.Execute())
}
`

// wallSeconds is where the runtime has read the wall clock, in its assembly for amd64.
const wallSeconds = "\tMOVQ\t16(SP), AX\t// realtime sec\n"

// BuildWithClock compiles holdfast into dir with a wall clock of its own, see clockMain, and returns the path of the
// binary. The monotonic clock is the machine's, and so are the times of files.
//
// Linux has no namespace for the wall clock. Only the assembly of package runtime is changed, which no other package
// sees. So the others need not be compiled again: the linker is given this runtime instead of Go's.
func BuildWithClock(dir string) (string, error) {
	root, err := goTool("env", "GOROOT")
	if err != nil {
		return "", err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	from := filepath.Join(strings.TrimSpace(root), "src", "runtime", "time_linux_amd64.s")
	text, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	before, after, found := strings.Cut(string(text), wallSeconds)
	if !found {
		return "", fmt.Errorf("%s does not read the wall clock as it did in Go 1.26: change wallSeconds", from)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{from: file("clock.s")}})
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{
		"clock.s": before + wallSeconds + "\tADDQ\truntime·wallAhead(SB), AX\n" + after +
			"\nGLOBL runtime·wallAhead(SB), NOPTR, $8\n",
		"main.go":      clockMain,
		"overlay.json": string(overlay),
	} {
		if err := os.WriteFile(file(name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	const list = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}\n{{end}}"
	packages, err := goTool("list", "-deps", "-export", "-f", list, "holdfast/cmd")
	if err != nil {
		return "", err
	}
	ours, err := goTool("list", "-export", "-overlay", file("overlay.json"), "-f", list, "runtime")
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for line := range strings.Lines(packages) {
		if strings.HasPrefix(line, "packagefile runtime=") {
			line = ours
		}
		all.WriteString(line)
	}
	if err := os.WriteFile(file("importcfg"), []byte(all.String()), 0o600); err != nil {
		return "", err
	}
	if _, err := goTool("tool", "compile", "-p", "main", "-importcfg", file("importcfg"), "-o", file("main.a"),
		file("main.go")); err != nil {
		return "", err
	}
	_, err = goTool("tool", "link", "-s", "-w", "-checklinkname=0", "-importcfg", file("importcfg"),
		"-o", file("holdfast-clock"), file("main.a"))
	return file("holdfast-clock"), err
}

// goTool runs the go command without cgo and returns its output.
func goTool(args ...string) (string, error) {
	var errs strings.Builder
	cmd := exec.Command("go", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &errs)
	}
	return string(out), nil
}
