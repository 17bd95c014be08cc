package embedded

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// managed is etcd-manager's state of a cluster of one.
func managed(token string) *ManagerState {
	return &ManagerState{Version: "3.6.12", Token: token, Nodes: []ManagerNode{{Name: "etcd-a", TLS: true,
		PeerURLs: []string{"https://etcd-a.internal.k8s.example.com:2380"}, ClientURLs: []string{"https://etcd-a.internal.k8s.example.com:4001"},
		QuarantinedClientURLs: []string{"https://etcd-a.internal.k8s.example.com:3994"}}}}
}

// The bytes are those of etcd-manager's EtcdState in protobuf: fields in order, nothing for a zero value.
func TestManagerStateBytes(t *testing.T) {
	s := &ManagerState{NewCluster: true, Quarantined: true, Version: "3.6.12", Size: 3, Token: "tok",
		Nodes: []ManagerNode{{Name: "a", PeerURLs: []string{"p"}, ClientURLs: []string{"c", "d"}, QuarantinedClientURLs: []string{"q"}, TLS: true}}}
	want := "\x08\x01" + // new_cluster
		"\x12\x1a" + "\x08\x03" + "\x2a\x03tok" + // cluster: desired_cluster_size, cluster_token
		"\x3a\x11" + "\x0a\x01a" + "\x12\x01p" + "\x1a\x01c" + "\x1a\x01d" + "\x22\x01q" + "\x28\x01" + // its node
		"\x1a\x063.6.12" + "\x20\x01" // etcd_version, quarantined
	if got := s.wire().encode(); string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	got := &ManagerState{}
	if err := got.wire().decode([]byte(want)); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Unknown fields of a later etcd-manager survive when we write the file, at each level.
func TestManagerStateKeepsWhatItDoesNotKnow(t *testing.T) {
	unknown := func(n protowire.Number) []byte {
		b := protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), "later")
		b = protowire.AppendFixed64(protowire.AppendTag(b, n+1, protowire.Fixed64Type), 4711)
		return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), 7) // a known number, another type
	}
	s := managed("tok")
	s.unknown, s.clusterUnknown, s.Nodes[0].unknown = unknown(90), unknown(92), unknown(94)
	volume := t.TempDir()
	check(t, os.WriteFile(filepath.Join(volume, managerStateFile), s.wire().encode(), 0o640))
	got, err := ReadManagerState(volume)
	check(t, err)
	if !reflect.DeepEqual(got, s) {
		t.Fatalf("got %+v, want %+v", got, s)
	}
	got.Version = "3.6.13"
	check(t, got.Write(volume))
	again, err := ReadManagerState(volume)
	check(t, err)
	s.Version = "3.6.13"
	if !reflect.DeepEqual(again, s) || !bytes.Contains(again.wire().encode(), unknown(94)) {
		t.Errorf("got %+v, want %+v", again, s)
	}
	if info, err := os.Stat(filepath.Join(volume, managerStateFile)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v, want the mode that it had", info, err)
	}
}

func TestManagerStateRefuses(t *testing.T) {
	volume := t.TempDir()
	if _, err := ReadManagerState(volume); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: got %v", err)
	}
	whole := managed("tok").wire().encode()
	for name, data := range map[string][]byte{"cut short": whole[:len(whole)/2], "a text": []byte("state of something else\n"),
		"too large": make([]byte, maxManagerState+1)} {
		check(t, os.WriteFile(filepath.Join(volume, managerStateFile), data, 0o600))
		if s, err := ReadManagerState(volume); !errors.Is(err, errManagerState) {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
	}
	for want, spoil := range map[string]func(*ManagerState){
		"is not the name of a directory": func(s *ManagerState) { s.Token = "../etcd" },
		"the version of etcd is missing": func(s *ManagerState) { s.Version = "" },
		"the nodes are missing":          func(s *ManagerState) { s.Nodes = nil },
		"the name of another":            func(s *ManagerState) { s.Nodes = append(s.Nodes, s.Nodes[0]) },
		"no peer URL":                    func(s *ManagerState) { s.Nodes[0].PeerURLs = nil },
	} {
		s := managed("tok")
		spoil(s)
		if err := s.Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
