package device

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// fake makes a directory that imitates /, with files at these paths.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

func TestListFindsVolumesBySerial(t *testing.T) {
	root := fake(t, map[string]string{
		"sys/block/nvme0n1/device/model":    model + "\n",
		"sys/block/nvme0n1/device/serial":   "vol00000000000000aaa\n",
		"dev/nvme0n1":                       "",
		"sys/block/nvme1n1/device/model":    model + "      \n",
		"sys/block/nvme1n1/device/serial":   "vol00000000000000bbb   ",
		"dev/disk/real":                     "",
		"sys/block/nvme2n1/device/model":    "Amazon EC2 NVMe Instance Storage",
		"sys/block/nvme2n1/device/serial":   "vol00000000000000ccc",
		"dev/nvme2n1":                       "",
		"sys/block/nvme3n1/device/model":    model, // it has no node yet
		"sys/block/nvme3n1/device/serial":   "vol00000000000000ddd",
		"sys/block/nvme4c0n1/device/model":  model, // a path of a multipath device
		"sys/block/nvme4c0n1/device/serial": "vol00000000000000eee",
		"dev/nvme4c0n1":                     "",
		"sys/block/nvme5n1/device/model":    model, // its serial file is going away
		"dev/nvme5n1":                       "",
		"sys/block/sda/size":                "1",
	})
	must(t, os.Symlink("disk/real", filepath.Join(root, "dev/nvme1n1")))
	got, err := List(EBS(root))
	must(t, err)
	want := []Device{
		{"vol-00000000000000aaa", "nvme0n1", filepath.Join(root, "dev/nvme0n1")},
		{"vol-00000000000000bbb", "nvme1n1", filepath.Join(root, "dev/disk/real")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListOfTwoDevicesOfOneVolumeIsAnError(t *testing.T) {
	files := make(map[string]string)
	for _, name := range []string{"nvme1n1", "nvme2n1"} {
		files["sys/block/"+name+"/device/model"] = model
		files["sys/block/"+name+"/device/serial"] = "vol00000000000000aaa"
		files["dev/"+name] = ""
	}
	got, err := List(EBS(fake(t, files)))
	if err == nil || !strings.Contains(err.Error(), "nvme1n1 and nvme2n1") {
		t.Errorf("got %v, %v, want an error that names both", got, err)
	}
}

func TestListOfThisMachine(t *testing.T) {
	if _, err := List(EBS("/")); err != nil {
		t.Error(err)
	}
	if _, err := List(EBS(t.TempDir())); err == nil {
		t.Error("without sysfs: got no error, want one: unknown is not none")
	}
}

func FuzzParseSerial(f *testing.F) {
	for _, s := range []string{"vol0123456789abcdef0\n", "vol01234567  ", "vol-0123456789abcdef0", "AWS0123", "vol", "vol0123456789abcdef0x", "\x00vol01234567\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, serial string) {
		volume, ok := parseSerial(serial)
		if !ok {
			if volume != "" {
				t.Errorf("got volume %q without ok", volume)
			}
			return
		}
		digits, found := strings.CutPrefix(volume, "vol-")
		if !found || len(digits) < 8 || len(digits) > 17 || strings.Trim(digits, "0123456789abcdef") != "" {
			t.Errorf("got %q from %q, want a volume ID", volume, serial)
		}
		if !strings.Contains(serial, digits) {
			t.Errorf("got %q, which is not in %q", volume, serial)
		}
	})
}
