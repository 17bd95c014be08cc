package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeUnits is a machine with units in four directories. A text that begins with -> is a link.
func fakeUnits(t *testing.T, files map[string]string) units {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		target, link := strings.CutPrefix(text, "->")
		if !link {
			writeFile(t, path, text)
			continue
		}
		must(t, errors.Join(MakeDirs(filepath.Dir(path)), os.Symlink(target, path)))
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return units{admin: []string{in("etc"), in("run"), in("generator")}, vendor: []string{in("usr"), in("lib")}}
}

func TestMountUnits(t *testing.T) {
	const unit = "[Unit]\nDescription=a disk\n\n[Mount]\nWhat=/dev/disk/by-label/etcd\nWhere=/no-such/data\n"
	for _, test := range []struct {
		name    string
		files   map[string]string
		mounted []string
		dir     string
		want    string // a part of the error
	}{
		{"none", nil, nil, "/no-such/data", ""},
		{"an administrator's", map[string]string{"etc/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data", "no\\x2dsuch-data.mount names but which is not mounted"},
		{"below it", map[string]string{"etc/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data/etcd/a", "/no-such/data"},
		{"mounted", map[string]string{"etc/no\\x2dsuch-data.mount": unit}, []string{"/no-such/data"}, "/no-such/data/etcd", ""},
		{"elsewhere", map[string]string{"etc/no\\x2dsuch-data.mount": unit}, nil, "/no-such/database", ""},
		{"a generated one", map[string]string{"generator/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data", "is not mounted"},
		{"one of the run time", map[string]string{"run/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data", "is not mounted"},
		{"an automount", map[string]string{"etc/no\\x2dsuch-data.automount": unit}, []string{"autofs:/no-such/data"}, "/no-such/data", "is not mounted"},
		{"an automount that has done its work", map[string]string{"etc/no\\x2dsuch-data.automount": unit}, []string{"autofs:/no-such/data", "/no-such/data"}, "/no-such/data", ""},
		{"masked", map[string]string{"etc/no\\x2dsuch-data.mount": "->/dev/null", "usr/no\\x2dsuch-data.mount": unit,
			"usr/local-fs.target.wants/no\\x2dsuch-data.mount": "->../no\\x2dsuch-data.mount"}, nil, "/no-such/data", ""},
		{"masked by an empty file", map[string]string{"run/no\\x2dsuch-data.mount": "", "lib/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data", ""},
		{"a package's that nothing pulls in", map[string]string{"usr/no\\x2dsuch-data.mount": unit}, nil, "/no-such/data", ""},
		{"a package's that is enabled", map[string]string{"lib/no\\x2dsuch-data.mount": unit,
			"etc/local-fs.target.wants/no\\x2dsuch-data.mount": "->/lib/systemd/system/no\\x2dsuch-data.mount"}, nil, "/no-such/data", "is not mounted"},
		{"a link to a unit that is gone", map[string]string{"etc/no\\x2dsuch-data.mount": "->/no-such/unit"}, nil, "/no-such/data", "is not mounted"},
		{"the root file system", map[string]string{"generator/-.mount": unit}, nil, "/no-such/data", ""},
		{"its settings", map[string]string{"etc/no\\x2dsuch-data.mount.d/timeout.conf": "[Mount]\n"}, nil, "/no-such/data", ""},
		{"other kinds", map[string]string{"etc/no\\x2dsuch-data.service": unit, "etc/bad\\x2.mount": unit, "etc/.mount": unit}, nil, "/no-such/data", ""},
	} {
		m := fakeMounts(t, "", test.mounted...)
		found := fakeUnits(t, test.files)
		m.units = func() units { return found }
		err := m.check(mountAuto, test.dir)
		if test.want == "" && err != nil {
			t.Errorf("%s: got %v, want nil", test.name, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

func TestUnitsThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	m := fakeMounts(t, "")
	m.units = func() units { return units{admin: []string{file}} }
	if err := m.check(mountAuto, "/no-such/data"); err == nil {
		t.Error("got nil, want an error: what is not known may be a mount")
	}
}

func TestUnitPath(t *testing.T) {
	for name, want := range map[string]string{
		"var-lib-holdfast.mount": "/var/lib/holdfast", `a\x20b-c\x2dd.automount`: "/a b/c-d", `\xc3\xa4.mount`: "/ä",
		"-.mount": "", ".mount": "", "a.service": "", `a\xzz.mount`: "", `a\n.mount`: "", `a\x2`: "", "srv.mount.d": "",
	} {
		if got, ok := unitPath(name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", name, got, ok, want)
		}
	}
}
