package ebs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/volume"
)

// A slot without a volume is missing, a slot with two is doubtful, and a failed listing is never reported as well.
func TestDoctorLooksAtVolumes(t *testing.T) {
	look := func(infos []volume.Info, err error) (said string) {
		d := Doctor{Config: Default(), Cluster: "main", Slots: []string{"a", "b", "c"},
			Volumes: func(context.Context) ([]volume.Info, error) { return infos, err },
			Tell: func(j Judgement, text string) {
				said += map[Judgement]string{Well: "+", Doubtful: "!", Missing: "-"}[j] + text + "\n"
			},
		}
		d.volumes(t.Context())
		return said
	}
	said := look([]volume.Info{
		{Slot: "a", Volume: "vol-1", Why: "it is free", Encrypted: true}, {Slot: "b", Volume: "vol-2"}, {Slot: "b", Volume: "vol-3", Encrypted: true},
		{Volume: "vol-4", Why: "it has no slot", Encrypted: true},
		{Slot: "c", Volume: "vol-5", Cloud: "error", Why: "its state is error", Encrypted: true},
	}, nil)
	for _, want := range []string{
		"+volumes: slot a has vol-1 (for this node: it is free)\n", "!volumes: slot b has vol-2 and vol-3: only one of them is ever used\n",
		"-volumes: slot c has none with the tags ", "!volumes: vol-2 (slot b) is not encrypted\n", "!volumes: vol-4 is of no use: it has no slot\n",
		"!volumes: vol-5 is of no use: its state is error\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if said := look(nil, errors.New("denied")); said != "-volumes: denied\n" {
		t.Errorf("got %q", said)
	}
}

func TestDoctorLooksAtTheIOTimeout(t *testing.T) {
	for text, want := range map[string]string{
		"30\n":         "!I/O timeout: nvme_core.io_timeout is 30 s",
		"254":          "!I/O timeout: nvme_core.io_timeout is 254 s",
		"255\n":        "+I/O timeout: nvme_core.io_timeout is 255 s",
		"4294967295\n": "+I/O timeout: nvme_core.io_timeout is 4294967295 s",
		"long":         "!I/O timeout: ",
		"":             "!I/O timeout: not known",
	} {
		file := filepath.Join(t.TempDir(), "io_timeout")
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said := ""
		Doctor{Tell: func(j Judgement, text string) {
			said += map[Judgement]string{Well: "+", Doubtful: "!", Missing: "-"}[j] + text
		}}.ioTimeout(file)
		if !strings.HasPrefix(said, want) {
			t.Errorf("%q: got %q, want %q", text, said, want)
		}
	}
}

// A shell of a user who became root by su often lacks the directories in which a node also looks for programs.
func TestDoctorFindsProgramsAsANodeDoes(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	said := ""
	cfg := Default()
	cfg.DeviceRoot = t.TempDir()
	Doctor{Config: cfg, Tell: func(_ Judgement, text string) { said += text + "\n" }}.machine()
	if !strings.Contains(said, "programs: blkid, ") || strings.Contains(said, "not found") {
		t.Errorf("got\n%s", said)
	}
}
