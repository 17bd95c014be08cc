package device

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"holdfast/volume/device/devicetest"
)

// testUUID differs in each process: xfs does not mount two filesystems with the same UUID at the same time.
var testUUID = uuid.NewString()

func probed(t *testing.T, d *devicetest.Disk) Content {
	t.Helper()
	c, err := Probe(t.Context(), d.Path)
	must(t, err)
	return c
}

func TestProbeOfABlankDevice(t *testing.T) {
	for _, size := range []int64{512 << 10, 3 << 19, 64 << 20} {
		d := devicetest.New(t, size)
		if c := probed(t, d); !c.Blank || c.Type != "" || c.Other != "" || c.Busy {
			t.Errorf("%d bytes of nothing: got %+v, want blank", size, c)
		}
	}
}

func TestProbeSeesOneByte(t *testing.T) {
	const size = 64 << 20
	for _, at := range []int64{0, 1, 4095, 1<<20 - 1, size - 1<<20, size - 4096, size - 1} {
		d := devicetest.New(t, size)
		d.Write(t, at, []byte{1})
		if c := probed(t, d); c.Blank || c.Other == "" {
			t.Errorf("byte %d is 1: got %+v, want it not blank", at, c)
		}
	}
}

func TestProbeIsNotDeceivedByTheCache(t *testing.T) {
	d := devicetest.New(t, 64<<20)
	f, err := os.Open(d.Path)
	must(t, err)
	defer f.Close() // closing it would drop the cache
	if _, err := f.ReadAt(make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	d.Write(t, 512, lvm())
	stale := make([]byte, 1)
	if _, err := f.ReadAt(stale, 512); err != nil || stale[0] != 0 {
		t.Fatalf("got %v, %v, want the cache to be stale: the test shows nothing otherwise", stale, err)
	}
	if c := probed(t, d); c.Blank || !strings.Contains(c.Other, "LVM2_member") {
		t.Errorf("got %+v, want what is on the device", c)
	}
}

func TestProbeSeesSignatures(t *testing.T) {
	tests := []struct {
		name  string
		make  func(t *testing.T, d *devicetest.Disk)
		fs    string
		other string
	}{
		{"ext4", func(t *testing.T, d *devicetest.Disk) { devicetest.Run(t, "mkfs.ext4", "-q", d.Path) }, "ext4", ""},
		{"xfs", func(t *testing.T, d *devicetest.Disk) { devicetest.Run(t, "mkfs.xfs", "-q", d.Path) }, "xfs", ""},
		{"ext3", func(t *testing.T, d *devicetest.Disk) { devicetest.Run(t, "mke2fs", "-q", "-t", "ext3", d.Path) }, "", "ext3"},
		{"swap", func(t *testing.T, d *devicetest.Disk) { devicetest.Run(t, "mkswap", d.Path) }, "", "swap"},
		{"LVM", func(t *testing.T, d *devicetest.Disk) { d.Write(t, 512, lvm()) }, "", "LVM2_member"},
		{"MBR", func(t *testing.T, d *devicetest.Disk) { d.Write(t, 0, mbr(0x83)) }, "", "dos"},
		{"GPT", func(t *testing.T, d *devicetest.Disk) { d.Write(t, 0, gpt(devicetest.Small/512)) }, "", "gpt"},
		{"two", two, "", "ambivalent"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := devicetest.New(t, devicetest.Small)
			test.make(t, d)
			c := probed(t, d)
			if c.Blank || c.Type != test.fs || !strings.Contains(c.Other, test.other) || (c.Other == "") != (test.fs != "") {
				t.Errorf("got %+v, want type %q, other %q", c, test.fs, test.other)
			}
			err := Format(t.Context(), d.Path, Filesystem{Type: "ext4", UUID: testUUID, Label: "holdfast"})
			if err == nil || !strings.Contains(err.Error(), "not blank any more") {
				t.Errorf("format it: got %v, want a refusal", err)
			}
			if again := probed(t, d); again != c {
				t.Errorf("after the refusal: got %+v, want it as before: %+v", again, c)
			}
		})
	}
}

// two is an xfs filesystem that contains the superblock of an ext4.
func two(t *testing.T, d *devicetest.Disk) {
	devicetest.Run(t, "mkfs.ext4", "-q", d.Path)
	f, err := os.Open(d.Path)
	must(t, err)
	defer f.Close()
	super := make([]byte, 1024)
	if _, err := f.ReadAt(super, 1024); err != nil {
		t.Fatal(err)
	}
	devicetest.Run(t, "mkfs.xfs", "-q", "-f", d.Path)
	d.Write(t, 1024, super)
}

// lvm is the label of an LVM physical volume, for sector 1.
func lvm() []byte {
	b := make([]byte, 512)
	copy(b, "LABELONE")
	binary.LittleEndian.PutUint64(b[8:], 1)
	binary.LittleEndian.PutUint32(b[20:], 32)
	copy(b[24:], "LVM2 001")
	copy(b[32:], "abcdefghijklmnopqrstuvwxyz012345")
	const initial = 0xf597a6cf
	binary.LittleEndian.PutUint32(b[16:], ^crc32.Update(^uint32(initial), crc32.IEEETable, b[20:]))
	return b
}

// mbr is a partition table with one partition of this type.
func mbr(kind byte) []byte {
	b := make([]byte, 512)
	b[446+4] = kind
	binary.LittleEndian.PutUint32(b[446+8:], 1)
	binary.LittleEndian.PutUint32(b[446+12:], 1000)
	b[510], b[511] = 0x55, 0xaa
	return b
}

// gpt is an empty GUID partition table for a device of this many sectors.
func gpt(sectors uint64) []byte {
	b := append(mbr(0xee), make([]byte, 512+128*128)...)
	h := b[512:1024]
	copy(h, "EFI PART")
	le := binary.LittleEndian
	le.PutUint32(h[8:], 0x10000)
	le.PutUint32(h[12:], 92)
	le.PutUint64(h[24:], 1)
	le.PutUint64(h[32:], sectors-1)
	le.PutUint64(h[40:], 34)
	le.PutUint64(h[48:], sectors-34)
	h[56] = 1
	le.PutUint64(h[72:], 2)
	le.PutUint32(h[80:], 128)
	le.PutUint32(h[84:], 128)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(b[1024:]))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
	return b
}

func TestProbeOfADeviceInUse(t *testing.T) {
	d := devicetest.New(t, 64<<20)
	f, err := exclusive(d.Path, os.O_RDONLY)
	must(t, err)
	defer f.Close()
	if c := probed(t, d); c.Blank || !c.Busy || c.Other == "" {
		t.Errorf("got %+v, want it busy and not blank", c)
	}
	err = Format(t.Context(), d.Path, Filesystem{Type: "ext4", UUID: testUUID, Label: "holdfast"})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("format it: got %v, want %v", err, ErrBusy)
	}
}

func TestProbeOfWhatIsNoDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	if _, err := Probe(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not a block device") {
		t.Errorf("got %v, want that it is not a block device", err)
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	err := need("blkid", "mkfs.none")
	if err == nil || !strings.Contains(err.Error(), "the program mkfs.none is missing") {
		t.Errorf("got %v, want the program that is missing", err)
	}
	t.Setenv("PATH", "/nowhere")
	if err := need("blkid"); err != nil {
		t.Errorf("without a PATH: %v", err)
	}
}

// FuzzProbe writes bytes somewhere into a file. Unless all of them are zero, the file must not be blank.
func FuzzProbe(f *testing.F) {
	f.Add([]byte{0}, uint32(0))
	f.Add(lvm(), uint32(512))
	f.Add(gpt(1<<11), uint32(0))
	f.Add([]byte("SWAPSPACE2"), uint32(4086))
	f.Fuzz(func(t *testing.T, data []byte, at uint32) {
		if len(data) == 0 || len(data) > 1<<16 {
			return
		}
		path := filepath.Join(t.TempDir(), "image")
		image, err := os.Create(path)
		must(t, err)
		defer image.Close()
		const size = 2 << 20
		offset := int64(at) % (size - int64(len(data)))
		if _, err := image.WriteAt(data, offset); err != nil {
			t.Fatal(err)
		}
		must(t, image.Truncate(size))
		c, err := probe(t.Context(), image)
		must(t, err)
		if zero := strings.Trim(string(data), "\x00") == ""; c.Blank != zero {
			t.Errorf("%d bytes at %d: got %+v, want blank: %v", len(data), offset, c, zero)
		}
	})
}
