package config

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestReferences(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte("from-the-file\r\n"), 0o600))
	text := "gossip: {seeds: [one, '${env:SEED}'], seeds-file: 'x${env:SEED}'}\nsnapshot:\n  every: ${env:EVERY}\n  s3:\n    kms-key-id: ${file:" + file + "}\n    sse: aws:kms\n"
	environ := []string{"SEED=from-the-environment", "EVERY=1h", "HOLDFAST_CLUSTER_NAME=${env:NAME}", "NAME=main"}
	l := load(t, text, environ, "--etcd.auto-compaction-retention=${env:EVERY}")
	for _, tt := range []struct{ what, got, want string }{
		{"element of a list", strings.Join(l.Config.Gossip.Seeds, ","), "one,from-the-environment"},
		{"duration", l.Config.Snapshot.Every.String(), "1h0m0s"},
		{"file", l.Config.Snapshot.S3.KMSKeyID, "from-the-file"},
		{"part of a value", l.Config.Gossip.SeedsFile, "x${env:SEED}"},
		{"variable", l.Config.Cluster.Name, "main"},
		{"flag", l.Config.Etcd.AutoCompactionRetention, "1h"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, tt.got, tt.want)
		}
	}
	for name, write := range map[string]func(*Loaded, io.Writer) error{"yaml": (*Loaded).WriteYAML, "json": (*Loaded).WriteJSON} {
		var out bytes.Buffer
		must(t, write(l, &out))
		if strings.Contains(out.String(), "from-the-") || !strings.Contains(out.String(), "${env:SEED}") || !strings.Contains(out.String(), "${file:"+file+"}") {
			t.Errorf("%s shows\n%s", name, out.String())
		}
		if name == "yaml" { // it loads to the same
			if again := load(t, out.String(), environ); again.Config.Snapshot.S3.KMSKeyID != "from-the-file" || again.Config.Snapshot.Every != time.Hour {
				t.Errorf("what config show -o yaml writes loads to %+v", again.Config.Snapshot)
			}
		}
	}
}

// A source that wins takes the reference away, whether that stands for something or not.
func TestReferenceThatIsOverridden(t *testing.T) {
	for _, environ := range [][]string{{"EVERY=1h"}, nil} {
		l := load(t, "snapshot: {every: '${env:EVERY}'}", environ, "--snapshot.every=2h")
		for _, k := range Keys() {
			if k.Name == "snapshot.every" && l.Text(k) != "2h" {
				t.Errorf("shown: %q, want 2h", l.Text(k))
			}
		}
	}
}

// Nothing of a value is in the text of an error, whatever is wrong with it.
func TestReferencesThatAreWrong(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	two, large, none := write("two", "hunter-2\nhunter-3\n"), write("large", strings.Repeat("hunter-2", maxReferred/8)+"\n"), write("none", "\n")
	environ := []string{"SECRET=hunter-2\"ä", "PLAIN=hunter-2", "HOLDFAST_NODE_NAME=n1"}
	for _, tt := range []struct{ text, want string }{
		{"log: {level: '${env:SECRET}'}", `log.level: must be one of debug, info, warn, error, got "${env:SECRET}" (config.yaml:1)`},
		{"snapshot: {every: '${env:SECRET}'}", `snapshot.every: must be a duration such as 15m, 1h30m or 7d, got "${env:SECRET}" (config.yaml:1)`},
		{"volume: {local: {slot: '${env:PLAIN}'}}", `volume.local.slot: must be one of cluster.slots (a), got "${env:PLAIN}" (config.yaml:1)`},
		{"log: {level: '${env:MISSING}'}", "log.level: ${env:MISSING} is not set in the environment (config.yaml:1)"},
		{"log: {level: '${env:A-B}'}", "log.level: ${env:A-B} must name a variable: letters, digits and _ (config.yaml:1)"},
		{"log: {level: '${file:secret}'}", "log.level: ${file:secret} must name an absolute path (config.yaml:1)"},
		{"log: {level: '${file:" + two + "}'}", "log.level: ${file:" + two + "} must hold one line of UTF-8 text (config.yaml:1)"},
		{"log: {level: '${file:" + large + "}'}", "log.level: ${file:" + large + "} cannot be read: " + large + ": has more than 65536 bytes (config.yaml:1)"},
		{"log: {level: '${file:" + none + "}'}", "log.level: ${file:" + none + "} must not be empty (config.yaml:1)"},
		{"log: {level: '${file:/none/such}'}", "log.level: ${file:/none/such} cannot be read: open /none/such: no such file or directory (config.yaml:1)"},
		{"stop: {wait: '${env:MISSING}'}", "stop.wait: ${env:MISSING} is not set in the environment (config.yaml:1)"},
	} {
		file := writeFile(t, tt.text)
		_, err := Load(file, nil, environ)
		if got := problems(err, file); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.text, got, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: the value is in %q", tt.text, err)
		}
	}
}

// A reload reads the references again, and says which key has changed.
func TestReloadOfReferences(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		must(t, os.WriteFile(secret, []byte(text), 0o600))
	}
	file := writeFile(t, "node: {name: n1}\nsnapshot:\n  cron: ''\n  every: ${file:"+secret+"}\n  s3: {sse: aws:kms, kms-key-id: '${file:"+secret+"}'}\n")
	read := func() (*Loaded, error) { return Load(file, nil, nil) }
	write("61m\n")
	now, err := read()
	must(t, err)
	write("67m\n")
	core, logged := observer.New(zap.DebugLevel)
	taken, restart, err := now.Reload(read, zap.NewAtomicLevel(), zap.New(core))
	if err != nil || len(taken) != 1 || len(restart) != 1 || now.Config.Snapshot.Every != 67*time.Minute {
		t.Fatalf("taken over: %v, to restart: %v, error %v, snapshot.every %s", taken, restart, err, now.Config.Snapshot.Every)
	}
	shown := "${file:" + secret + "}"
	if want := (Change{"snapshot.every", shown, shown + " (which holds another value now)"}); taken[0] != want {
		t.Errorf("got %v, want %v", taken[0], want)
	}
	for _, entry := range logged.All() {
		for _, field := range entry.Context {
			if strings.Contains(field.String, "61m") || strings.Contains(field.String, "67m") || strings.Contains(field.String, "1h") {
				t.Errorf("the log has the value: %s %v", entry.Message, field)
			}
		}
	}
}

// A hostile file of the largest size is refused soon, and with few words.
func TestConfigurationBombs(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		from, to := string(rune('0'+i)), string(rune('1'+i))
		laughs += "a" + to + ": &a" + to + " [" + strings.TrimSuffix(strings.Repeat("*a"+from+", ", 9), ", ") + "]\n"
	}
	seeds := "gossip:\n  seeds: &s [" + strings.TrimSuffix(strings.Repeat("x, ", 1000), ", ") + "]\n"
	many := &strings.Builder{}
	for i := 0; many.Len() < maxFile-100; i++ {
		many.WriteString("gossip.see" + strings.Repeat("d", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576%26)) + ": 1\n")
	}
	for name, text := range map[string]string{
		"aliases of aliases": laughs + "gossip: {seeds: *a9}\n",
		"aliases in a list":  seeds + "cluster: {slots: [*s, *s, *s]}\n",
		"a long value":       "gossip: " + strings.Repeat("x", maxFile-100),
		"deep":               "gossip: " + strings.Repeat("[", maxFile-100),
		"deep, closed":       "gossip: {seeds: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
		"unknown keys":       many.String(),
		"anchors":            strings.Repeat("? &a a\n", maxFile/8),
		"merges":             "a: &a {x: 1}\nlog: {<<: [" + strings.TrimSuffix(strings.Repeat("*a, ", 50000), ", ") + "]}\n",
	} {
		begin := time.Now()
		_, err := Load(writeFile(t, text), nil, []string{"HOLDFAST_NODE_NAME=n1"})
		if err == nil {
			t.Errorf("%s: it was taken", name)
			continue
		}
		if n := len(err.Error()); n > 64<<10 {
			t.Errorf("%s: the error has %d bytes", name, n)
		}
		t.Logf("%s: %s, %.120s", name, time.Since(begin), err)
	}
}
