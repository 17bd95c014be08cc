package cmd

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
)

// What run refuses, config check refuses in the same words; a directory that was made with mkdir is closed, and not
// refused.
func TestCheckIsWhatRunRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		must(t, os.WriteFile(path(name), []byte(text), mode))
		if err := os.Chmod(path(name), mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	write("auth.yaml", "users: []\n", 0o644)
	write("file", "", 0o600)
	write("short.key", "AAAA\n", 0o600)
	must(t, os.Symlink("not-mounted", path("link")))
	must(t, os.MkdirAll(path("data/volumes/a"), 0o755))
	must(t, os.Chmod(path("data"), 0o755))
	for name, c := range map[string]struct{ config, want string }{
		"a mode that is too open":    {"auth: {file: DIR/auth.yaml}", "auth.file: DIR/auth.yaml (mode 0644"},
		"a key that is not there":    {"gossip: {key-file: DIR/none}", "DIR/none: no such file or directory; `holdfast gossip keygen`"},
		"a key that is none":         {"gossip: {key-file: DIR/short.key}", "key 1 must have 16, 24 or 32 bytes, has 3"},
		"a socket in no directory":   {"control: {socket: DIR/none/s}", "control.socket: there is no directory DIR/none: create it"},
		"a file and not a directory": {"node: {data-dir: DIR/file}", "node.data-dir: DIR/file is a file"},
		"a directory below a file":   {"node: {data-dir: DIR/file/data}", "node.data-dir: DIR/file is a file"},
		"a link to what is not there": {"node: {data-dir: DIR/link/data}",
			"node.data-dir: DIR/link is a link to a directory that is not there: create it or mount it"},
		"a file and no socket": {"control: {socket: DIR/file}", "control.socket: DIR/file exists but is not"},
		"an address of another machine": {"node: {name: n1, address: 192.0.2.1}",
			`node.address: must be an address of this machine, or set gossip.listen and metrics.listen to one, got "192.0.2.1" (`},
		"a listener of another machine": {"metrics: {listen: '192.0.2.1:2390'}",
			`metrics.listen: must be at an address of this machine, got "192.0.2.1" (`},
		"an address behind another one": {"node: {name: n1, address: 192.0.2.1, data-dir: DIR/data}\n" +
			"gossip: {listen: '127.0.0.1:7946'}\nmetrics: {listen: '127.0.0.1:2390'}", ""},
		"a directory made by mkdir": {"node: {data-dir: DIR/data}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			write("config.yaml", strings.ReplaceAll(c.config, "DIR", dir)+"\n", 0o600)
			want := strings.ReplaceAll(c.want, "DIR", dir)
			root := newRoot()
			root.SetArgs([]string{"config", "check", path("config.yaml")})
			root.SetOut(io.Discard)
			err := root.ExecuteContext(t.Context())
			l, loading := config.Load(path("config.yaml"), nil, nil)
			if loading != nil {
				t.Fatal(loading)
			}
			no := config.Refused(l)
			if want == "" {
				if err != nil || no != nil {
					t.Errorf("check: %v; run: %v", err, no)
				}
				if err := config.CloseDataDir(l.Config); err != nil {
					t.Error(err)
				}
				if info, err := os.Stat(path("data")); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the directory: %v %v", info.Mode(), err)
				}
				return
			}
			if err == nil || no == nil || !strings.Contains(no.Error(), want) || !strings.HasSuffix(err.Error(), no.Error()) || len(config.Errors(no)) != 1 {
				t.Errorf("check: %v; run: %v; want %q", err, no, want)
			}
		})
	}
	write("data/secret", "", 0o600)
	must(t, os.Chmod(path("data"), 0o755))
	write("config.yaml", "node: {data-dir: "+path("data")+"}\n", 0o600)
	if l, err := config.Load(path("config.yaml"), nil, nil); err != nil || config.Refused(l) == nil {
		t.Errorf("a directory that was open with something in it: %v", err)
	}
}

// The help of every command fits on a screen's width, and `run -h` does not list a hundred keys.
func TestHelp(t *testing.T) {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		var out strings.Builder
		c.SetOut(&out)
		must(t, c.Usage())
		for line := range strings.Lines(out.String()) {
			if utf8.RuneCountInString(line) > 121 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		if strings.Contains(out.String(), "--cluster.slots") {
			t.Errorf("%s lists the keys of the configuration", c.CommandPath())
		}
		for _, below := range c.Commands() {
			all(below)
		}
	}
	all(newRoot())
}

// What findings and documents say to run are commands, with flags that they have.
func TestCommandsThatAreTold(t *testing.T) {
	texts := map[string]string{}
	for _, k := range health.Kinds {
		texts[string(k.Code)] = k.Do
	}
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../README.md", "../deploy/kops/README.md") {
		text, err := os.ReadFile(file)
		must(t, err)
		texts[file] = string(text)
	}
	root, told := newRoot(), 0
	root.InitDefaultCompletionCmd()
	fences := regexp.MustCompile("(?sm)^ *```.*?^ *```$")
	command := regexp.MustCompile("(?m)`holdfast\\s+([^`]+)`|^ {4,}(?:\\$ )?holdfast +(.+)$")
	for where, text := range texts {
		text = fences.ReplaceAllStringFunc(text, func(block string) string { // indented, and without a mark of its own
			return strings.ReplaceAll(strings.ReplaceAll(block, "`", ""), "\n", "\n    ")
		})
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " #")
			c, rest, err := root.Find(strings.Fields(line))
			if err != nil || c.HasSubCommands() && len(rest) > 0 && !strings.ContainsAny(rest[0], "|…") {
				t.Errorf("%s: there is no command %q: %v", where, line, err)
				continue
			}
			told++
			for _, word := range rest {
				name, flag := strings.CutPrefix(strings.TrimLeft(word, "["), "--")
				name, _, _ = strings.Cut(strings.TrimRight(name, "],…"), "=")
				name, _, _ = strings.Cut(name, `\|`) // in a table
				if flag && !c.DisableFlagParsing && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: %q has no flag --%s: %s", where, c.CommandPath(), name, line)
				}
			}
		}
	}
	if told < 200 {
		t.Errorf("found %d commands", told)
	}
}

// Each section of help.md is the help of a command, so that a command whose name changes does not lose its help.
func TestHelpIsOfCommands(t *testing.T) {
	root, sections := newRoot(), 0
	for line := range strings.Lines(helpText) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "## ")
		if !ok {
			continue
		}
		sections++
		c, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || c.CommandPath() != path || c.Long == "" || strings.Contains(c.Long+c.Example, "## ") {
			t.Errorf("section %q: got the command %q with the help\n%s\n%s", path, c.CommandPath(), c.Long, c.Example)
		}
	}
	if sections == 0 {
		t.Error("help.md has no section")
	}
}
