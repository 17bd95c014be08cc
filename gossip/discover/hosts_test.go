package discover

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const zone = "k8s.holdfast.internal"

func at(slot, ip string) Entry { return Entry{Slot: slot, Address: netip.MustParseAddr(ip)} }

var two = []Entry{at("a", "10.0.0.1"), at("b", "fd00::2")}

const block = "# BEGIN holdfast cluster k8s, kept by `holdfast discover`\n" +
	"10.0.0.1 a.k8s.holdfast.internal k8s.holdfast.internal # holdfast k8s\n" +
	"fd00::2 b.k8s.holdfast.internal k8s.holdfast.internal # holdfast k8s\n" +
	"# END holdfast cluster k8s\n"

func TestHostsBlock(t *testing.T) {
	lines := strings.SplitAfter(block, "\n")
	begin, one, end := lines[0], lines[1], lines[3]
	other := strings.ReplaceAll(block, "k8s", "k8")
	for name, c := range map[string]struct {
		old, want string
		repaired  bool
	}{
		"empty":               {"", block, false},
		"no newline":          {"127.0.0.1 localhost", "127.0.0.1 localhost\n" + block, false},
		"CRLF of others":      {"127.0.0.1 localhost\r\n", "127.0.0.1 localhost\r\n" + block, false},
		"in the middle":       {"x\n" + begin + one + end + "\ty", "x\n" + block + "\ty", false},
		"as it is":            {"x\n" + block + "y\n", "x\n" + block + "y\n", false},
		"another cluster's":   {other + "x\n", other + "x\n" + block, false},
		"no end":              {"x\n" + begin + one + "y\n", "x\n" + block + "y\n", true},
		"no begin":            {"x\n" + one + end + "y\n", "x\n" + block + "y\n", true},
		"lines alone":         {"x\n" + one + "y\n" + one, "x\n" + block + "y\n", true},
		"twice":               {block + "x\n" + block, block + "x\n", true},
		"begin in begin":      {begin + begin + one + end + "x", block + "x", true},
		"a stranger in it":    {begin + one + "1.2.3.4 db\n" + end + "x\n", block + "1.2.3.4 db\nx\n", true},
		"a line cut in half":  {"x\n" + begin + one[:20], "x\n" + block + one[:20], true},
		"ends before it does": {end + "x\n" + begin, block + "x\n", true},
	} {
		h := hostsBlock{"k8s", Names{Zone: zone}}
		got, note := h.edit([]byte(c.old), two)
		if string(got) != c.want || (note != "") != c.repaired {
			t.Errorf("%s: got %q, %q, want %q, repaired %t", name, got, note, c.want, c.repaired)
		}
		if again, note := h.edit(got, two); string(again) != string(got) || note != "" && name != "a line cut in half" {
			t.Errorf("%s again: got %q, %q", name, again, note)
		}
	}
	if got, note := (hostsBlock{"k8s", Names{Zone: zone}}).edit([]byte(block), nil); string(got) != block || note != "" {
		t.Errorf("nothing known: got %q, %q", got, note)
	}
}

func FuzzHosts(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n" + block))
	f.Add([]byte(block + block[30:]))
	f.Fuzz(func(t *testing.T, old []byte) {
		h := hostsBlock{"k8s", Names{Zone: zone}}
		got, _ := h.edit(old, two)
		if again, _ := h.edit(got, two); string(again) != string(got) {
			t.Errorf("not the same again: %q, then %q", got, again)
		}
		if strings.Count(string(got), block) != 1 {
			t.Errorf("not one block: %q", got)
		}
		foreign := func(text []byte) (lines []string) {
			for line := range strings.Lines(string(text)) {
				if h.kind([]byte(line)) == theirs {
					lines = append(lines, strings.TrimSuffix(line, "\n"))
				}
			}
			return lines
		}
		if got, want := foreign(got), foreign(old); !reflect.DeepEqual(got, want) {
			t.Errorf("lines of others: got %q, want %q", got, want)
		}
	})
}

func TestRecallHosts(t *testing.T) {
	got := recallHosts([]byte("10.9.9.9 a.k8s.holdfast.internal\n"+block+"x # holdfast k8s\n1.1.1.1 z # holdfast k8s\n"), "k8s", zone)
	if !reflect.DeepEqual(got, two) {
		t.Errorf("got %v, want %v", got, two)
	}
}

func brought(t *testing.T, path string, entries []Entry) (wrote bool) {
	t.Helper()
	wrote, _, err := hostsFile(path, "k8s", Names{Zone: zone}, entries).Sync()
	must(t, err)
	return wrote
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// The file keeps mode and place, also behind a link, and is written only when it must be.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "hosts")
	must(t, os.WriteFile(target, []byte("x\n"), 0o600))
	must(t, os.Chmod(target, 0o664))
	must(t, os.Symlink("real", link))
	if !brought(t, link, two) {
		t.Error("it was not written")
	}
	before, err := os.Lstat(target)
	must(t, err)
	if brought(t, link, two) {
		t.Error("it was written again")
	}
	after, err := os.Lstat(target)
	if err != nil || !os.SameFile(before, after) || !after.Mode().IsRegular() || after.Mode().Perm() != 0o664 {
		t.Errorf("got %v, %v, want the same regular file of mode 0664", after.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: got %v, %v", info.Mode(), err)
	}
	if got, want := read(t, link), "x\n"+block; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("left behind: %v", all)
	}
}

// What a rename cannot replace is written in place, longer or shorter than it was, and stays the same file.
func TestOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	for _, c := range [][2]string{{"abc\n", "abc\ndef\n"}, {"abc\ndef\n", "abc\n"}, {"abc\n", "xbc\n"}, {"", "a\n"}, {"a\n", ""}} {
		must(t, os.WriteFile(path, []byte(c[0]), 0o600))
		must(t, overwrite(path, []byte(c[0]), []byte(c[1])))
		if got := read(t, path); got != c[1] {
			t.Errorf("%q: got %q, want %q", c[0], got, c[1])
		}
	}
}

// The names in the members' URLs stand beside those of the zone, in the file and in DNS.
func TestPatternOfHosts(t *testing.T) {
	names := Names{Zone: zone, Hosts: "etcd-{slot}.internal.example.com"}
	got, _ := hostsBlock{"k8s", names}.edit(nil, two)
	want := strings.NewReplacer(" k8s.holdfast", " etcd-a.internal.example.com k8s.holdfast").Replace(block[:strings.Index(block, "fd00")]) +
		strings.NewReplacer(" k8s.holdfast", " etcd-b.internal.example.com k8s.holdfast").Replace(block[strings.Index(block, "fd00"):])
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if recalled := recallHosts(got, "k8s", zone); !reflect.DeepEqual(recalled, two) {
		t.Errorf("recalled %v", recalled)
	}
	z := newZone(names, two, 1)
	for name, want := range map[string]string{"Etcd-a.Internal.example.com.": "NOERROR 10.0.0.1 aa",
		"etcd-b.internal.example.com.": "NOERROR authority aa", "etcd-c.internal.example.com.": "REFUSED ",
		"a." + zone + ".": "NOERROR 10.0.0.1 aa"} {
		if got := show(z.Answer(query(name, 1, 0), false)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
