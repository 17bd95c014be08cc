package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdfast/volume/volumetest/ec2test"
)

// Volumes adds a blank volume for each slot of a cluster, in the zones in turn, and returns their IDs by slot.
func (s *Site) Volumes(cluster string, slots []string, zones ...string) map[string]string {
	s.t.Helper()
	ids := map[string]string{}
	for i, slot := range slots {
		id, err := s.EC2.AddVolume(ec2test.Volume{Zone: zones[i%len(zones)], Size: 1, Encrypted: true,
			Tags: map[string]string{"holdfast:cluster": cluster, "holdfast:member": slot}})
		if err != nil {
			s.t.Fatal(err)
		}
		ids[slot] = id
	}
	return ids
}

// Attach attaches a volume to a machine as an operator does, and waits until it is attached.
func (s *Site) Attach(volume string, m *Machine, device string) {
	s.t.Helper()
	form := url.Values{"Action": {"AttachVolume"}, "Version": {"2016-11-15"}, "VolumeId": {volume}, "InstanceId": {m.ID},
		"Device": {device}}
	r, err := http.NewRequest(http.MethodPost, "http://"+s.at, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// The credentials of no instance; the stand-in does not check the signature.
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=OPERATOR/none")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		s.t.Fatalf("attach %s to %s: %s", volume, m.ID, text)
	}
	for last := time.Now().Add(patience); ; time.Sleep(poll) {
		v, _ := s.EC2.Volume(volume)
		if len(v.Attachments) == 1 && v.Attachments[0].State == "attached" {
			return
		}
		if time.Now().After(last) {
			s.t.Fatalf("%s is not attached to %s: %+v", volume, m.ID, v)
		}
	}
}

// file returns the path of the file behind a volume.
func (s *Site) file(volume string) string { return filepath.Join(s.Dir, "devices", "volumes", volume) }

// Populate makes a foreign filesystem with one file on a volume that is attached nowhere.
func (s *Site) Populate(volume, name, content string) {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "populate-"+volume)
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	if err == nil {
		var out []byte
		if out, err = exec.Command("mkfs.ext4", "-q", "-d", dir, s.file(volume)).CombinedOutput(); err != nil {
			err = fmt.Errorf("mkfs.ext4: %w: %s", err, out)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Checksum returns the checksum of a volume's content.
func (s *Site) Checksum(volume string) string {
	s.t.Helper()
	f, err := os.Open(s.file(volume))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		s.t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Space returns the size in bytes of the filesystem on a node's volume.
func (n *Node) Space() uint64 {
	n.c.t.Helper()
	s, err := n.Self()
	if err != nil || s.Volume == nil {
		n.c.t.Fatalf("%s holds no volume: %v", n.Name, err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(n.Machine.Host.Path(s.Volume.Path), &fs); err != nil {
		n.c.t.Fatal(err)
	}
	return fs.Blocks * uint64(fs.Bsize)
}

// backing returns the path of the file behind a loop device, and "" for another device.
func backing(major, minor int) string {
	if major != 7 { // of loop devices (admin-guide/devices.txt of Linux)
		return ""
	}
	data, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/loop/backing_file", major, minor))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
