package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"holdfast/volume/device/devicetest"
)

// hold makes a directory that a node could have left behind, and the configuration for it.
func hold(t *testing.T) (dir string, cfg Config) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, d := range []string{"data", "data/tls", "data/snapshots", "data/volumes", "data/volumes/a", "data/volumes/a/etcd", "keys"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	for _, f := range []string{"config.yaml", "keys/gossip", "keys/identity", "data/tls/peer.key", "data/volumes/a/etcd/db", "data/snapshots/x"} {
		must(t, os.WriteFile(filepath.Join(dir, f), nil, 0o600))
	}
	cfg = load(t, "", nil, "--node.data-dir="+filepath.Join(dir, "data"),
		"--gossip.key-file="+filepath.Join(dir, "keys/gossip"), "--snapshot.identity-file="+filepath.Join(dir, "keys/identity")).Config
	return dir, cfg
}

// What others could read or change is told with its path, its mode, its owner and the cure, and nothing else is.
func TestFilesThatOthersReach(t *testing.T) {
	for _, tt := range []struct {
		path string
		mode os.FileMode
		want string // in the only error; "" for none
	}{
		{"data", 0o700, ""},
		{"data", 0o755, "node.data-dir: DIR/data (mode 0755, owner uid ME): others may use it: run chmod go= DIR/data"},
		{"data/tls", 0o710, "tls.dir: DIR/data/tls (mode 0710, owner uid ME): others may use it: run chmod go= DIR/data/tls"},
		{"data/tls/peer.key", 0o640, ""}, // nobody else gets as far as that
		{"data/snapshots/x", 0o604, ""},  // likewise: a backup that was copied there by hand
		{"data/volumes", 0o755, ""},      // a filesystem's root
		{"data/volumes", 0o775, "volumes: DIR/data/volumes (mode 0775, owner uid ME): others may use it: run chmod go= DIR/data/volumes"},
		{"data/volumes/a", 0o755, ""}, // likewise
		{"data/volumes/a", 0o770, "run chmod go= DIR/data/volumes/a"},
		{"data/volumes/a/etcd", 0o755, ""}, // closed when its member starts
		{"keys/gossip", 0o400, ""},
		{"keys/gossip", 0o640, "gossip.key-file: DIR/keys/gossip (mode 0640, owner uid ME): others may use it: run chmod go= DIR/keys/gossip"},
		{"keys/identity", 0o604, "snapshot.identity-file: DIR/keys/identity"},
		{"keys", 0o777, "gossip.key-file: DIR/keys (mode 0777, owner uid ME): everyone may replace what is in it: run chmod o-w DIR/keys"},
		{"keys", 0o777 | os.ModeSticky, ""},
		{"config.yaml", 0o644, ""},
		{"config.yaml", 0o646, "--config: DIR/config.yaml (mode 0646, owner uid ME): everyone may change it: run chmod o-w DIR/config.yaml"},
		{"", 0o757, "node.data-dir: DIR (mode 0757, owner uid ME): everyone may replace what is in it: run chmod o-w DIR"},
	} {
		t.Run(fmt.Sprintf("%s %04o", tt.path, tt.mode.Perm()), func(t *testing.T) {
			dir, cfg := hold(t)
			must(t, os.Chmod(filepath.Join(dir, tt.path), tt.mode))
			got := texts(checkOwnFiles(cfg, filepath.Join(dir, "config.yaml")))
			want := strings.NewReplacer("DIR", dir, "ME", fmt.Sprint(os.Geteuid())).Replace(tt.want)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
				t.Fatalf("got %q\nwant %q", got, want)
			}
			if len(got) == 0 {
				return
			}
			// The command that is told is the cure.
			_, command, _ := strings.Cut(got[0], ": run chmod ")
			chmod(t, strings.Fields(command))
			if err := checkOwnFiles(cfg, filepath.Join(dir, "config.yaml")); err != nil {
				t.Errorf("after chmod %s: %v", command, err)
			}
		})
	}
}

// chmod does what the shell's would.
func chmod(t *testing.T, args []string) {
	t.Helper()
	take := map[string]os.FileMode{"go=": 0o077, "o-w": 0o002}[args[0]]
	info, err := os.Stat(args[1])
	must(t, err)
	must(t, os.Chmod(args[1], info.Mode().Perm()&^take))
}

// A link hides nothing: neither where the data really is, nor who may bend the link.
func TestFilesBehindLinks(t *testing.T) {
	dir, cfg := hold(t)
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o700))
	must(t, os.Symlink(cfg.Node.DataDir, filepath.Join(open, "data")))
	must(t, os.Chmod(open, 0o777))
	must(t, os.Chmod(filepath.Join(dir, "data"), 0o750))
	cfg.Node.DataDir = filepath.Join(open, "data")
	got := fmt.Sprint(checkOwnFiles(cfg, ""))
	for _, want := range []string{open + " (mode 0777", cfg.Node.DataDir + " (mode 0750"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// Somebody else's file is refused, and root's is not. Only root can make one.
func TestFilesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir, cfg := hold(t)
	must(t, os.Chown(cfg.Gossip.KeyFile, 4711, 0))
	must(t, os.Chown(filepath.Join(dir, "data/tls"), 4711, 0))
	got := texts(checkOwnFiles(cfg, ""))
	want := []string{"tls.dir: data/tls", "gossip.key-file: keys/gossip"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want two", got)
	}
	for i, line := range got {
		if !strings.Contains(strings.ReplaceAll(line, dir+"/", ""), want[i]) || !strings.Contains(line, "owner uid 4711") ||
			!strings.Contains(line, "run holdfast as uid 4711, or chown 0 ") { // root may only have checked a node of another user
			t.Errorf("got %q, want %q", line, want[i])
		}
	}
}

// texts are the texts of joined errors.
func texts(err error) (all []string) {
	for _, e := range Errors(err) {
		all = append(all, e.Error())
	}
	return all
}

// A new key that names a file with a secret must be looked at.
func TestEverySecretKeyIsKnown(t *testing.T) {
	secret := regexp.MustCompile(`(^|[.-])key-file$|identity-file$|^auth\.file$`)
	for _, k := range Keys() {
		if secret.MatchString(k.Name) && !slices.Contains(secretKeys, k.Name) {
			t.Errorf("%s is not in secretKeys", k.Name)
		}
	}
}

// The directory of the backups may be on a server that is dead.
func TestStoreThatHangsIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		refuses := func() error { return os.ErrPermission }
		hangs := func() error { <-dead; return os.ErrPermission }
		var c fileCheck
		look := func(at func() error) func(*fileCheck) {
			return func(own *fileCheck) { own.errs = append(own.errs, at()) }
		}
		c.apart(look(hangs))
		told := ifAnswers("/dead", hangs)
		close(dead)
		if c.errs != nil || told == nil || told.Error() != "/dead has not answered for 3s" {
			t.Errorf("got %v and %v", c.errs, told)
		}
		if c.apart(look(refuses)); len(c.errs) != 1 || !errors.Is(ifAnswers("/here", refuses), os.ErrPermission) {
			t.Errorf("of one that answers: got %v", c.errs)
		}
	})
}

// A directory of backups that hangs, even that of the spool, does not keep a node from starting. What is elsewhere is
// found all the same.
func TestNodeStartsBesideADeadDirectory(t *testing.T) {
	t.Parallel()
	dead := devicetest.Dead(t)
	for _, key := range []string{"snapshot.spool", "snapshot.scratch", "snapshot.store"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			dir, cfg := hold(t)
			cfg.Snapshot.Spool, cfg.Snapshot.Scratch = filepath.Join(dir, "spool"), filepath.Join(dir, "scratch")
			for field, of := range map[*string]string{&cfg.Snapshot.Spool: "snapshot.spool",
				&cfg.Snapshot.Scratch: "snapshot.scratch", &cfg.Snapshot.Store: "snapshot.store"} {
				if of == key {
					*field = filepath.Join(dead, "backups")
				}
			}
			must(t, os.Chmod(dir, 0o777))
			err := checkOwnFiles(cfg, "")
			if err == nil || !strings.Contains(err.Error(), "everyone may replace what is in it") {
				t.Errorf("got %v", err)
			}
		})
	}
}
