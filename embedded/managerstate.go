package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/durable"
	"holdfast/layout"
)

const (
	managerStateFile = layout.State
	managerData      = layout.Data
)

// maxManagerState bounds the file state, in bytes. That of a cluster of seven nodes has about two thousand.
const maxManagerState = 1 << 20

// ManagerState is etcd-manager's file `state`, by which it starts etcd: an EtcdState in protobuf's binary form
// (pkg/apis/etcd/etcdapi.proto). Unknown fields are kept as they were read.
type ManagerState struct {
	NewCluster  bool   // the cluster is to be founded, and etcd has not started in it yet
	Quarantined bool   // etcd listens where only etcd-manager finds it: a restore is in progress
	Version     string // of the etcd to start, such as 3.6.12; etcd-manager needs a binary of exactly this version
	Size        uint64 // members wanted; 0 if not set
	Token       string // of the cluster, whose data is in data/Token; "" if there is none
	Nodes       []ManagerNode

	unknown, clusterUnknown []byte
}

// ManagerNode is a member in etcd-manager's file state. etcd-manager finds its own entry by name, and takes its peer
// URLs from there.
type ManagerNode struct {
	Name                  string
	PeerURLs              []string
	ClientURLs            []string
	QuarantinedClientURLs []string
	TLS                   bool

	unknown []byte
}

// ReadManagerState reads etcd-manager's file state on a volume. The error wraps fs.ErrNotExist if there is none.
func ReadManagerState(volume string) (*ManagerState, error) {
	path := filepath.Join(volume, managerStateFile)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read etcd-manager's state: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxManagerState:
		return nil, fmt.Errorf("%w: %s is not a regular file of at most %d bytes", errManagerState, path, maxManagerState)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read etcd-manager's state: %w", err)
	}
	s := &ManagerState{}
	if err := s.wire().decode(data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errManagerState, path, err)
	}
	return s, nil
}

// errManagerState: etcd-manager did not write this file.
var errManagerState = errors.New("the file is not a state file of etcd-manager")

// Write replaces etcd-manager's file state on a volume atomically. etcd-manager itself writes it in place, and can
// never start again on a half-written one.
func (s *ManagerState) Write(volume string) (err error) {
	defer during(&err, "write etcd-manager's state")
	if err := s.check(); err != nil {
		return err
	}
	path := filepath.Join(volume, managerStateFile)
	return durable.File{Temp: path + ".tmp", Keep: 0o600}.Write(path, s.wire().encode())
}

// check returns an error if etcd-manager could not start etcd by this state.
func (s *ManagerState) check() error {
	switch {
	case !tokenName(s.Token):
		return fmt.Errorf("the token %q is not the name of a directory", s.Token)
	case s.Version == "":
		return errors.New("the version of etcd is missing")
	case len(s.Nodes) == 0:
		return errors.New("the nodes are missing")
	}
	seen := map[string]bool{}
	for _, n := range s.Nodes {
		if n.Name == "" || seen[n.Name] || len(n.PeerURLs) == 0 {
			return fmt.Errorf("node %q has no name, the name of another, or no peer URL", n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}

// tokenName reports whether a token can name a directory below data/. etcd-manager uses 16 random bytes in base64url.
func tokenName(token string) bool {
	return token != "" && token != "." && token != ".." && !strings.ContainsAny(token, "/\x00")
}

// wireMessage is a protobuf message: its known fields, in the order in which they are written, and the bytes of all
// others.
type wireMessage struct {
	fields  []wireField
	unknown *[]byte
}

// wireField is a field by its number: a *bool, *uint64, *string, *[]string, *[]ManagerNode, or a wireMessage.
type wireField struct {
	number protowire.Number
	value  any
}

func (s *ManagerState) wire() wireMessage {
	cluster := wireMessage{[]wireField{{1, &s.Size}, {5, &s.Token}, {7, &s.Nodes}}, &s.clusterUnknown}
	return wireMessage{[]wireField{{1, &s.NewCluster}, {2, cluster}, {3, &s.Version}, {4, &s.Quarantined}}, &s.unknown}
}

func (n *ManagerNode) wire() wireMessage {
	return wireMessage{[]wireField{{1, &n.Name}, {2, &n.PeerURLs}, {3, &n.ClientURLs}, {4, &n.QuarantinedClientURLs},
		{5, &n.TLS}}, &n.unknown}
}

// field returns the field with this number and type, nil if there is none. With another type it is not the one we know.
func (m wireMessage) field(number protowire.Number, kind protowire.Type) any {
	for _, f := range m.fields {
		want := protowire.BytesType
		switch f.value.(type) {
		case *bool, *uint64:
			want = protowire.VarintType
		}
		if f.number == number && kind == want {
			return f.value
		}
	}
	return nil
}

func (m wireMessage) decode(data []byte) (err error) {
	for len(data) > 0 && err == nil {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		_, _, tag := protowire.ConsumeTag(data)
		varint, _ := protowire.ConsumeVarint(data[tag:n])
		text, _ := protowire.ConsumeBytes(data[tag:n])
		switch v := m.field(number, kind).(type) {
		case *bool:
			*v = varint != 0
		case *uint64:
			*v = varint
		case *string:
			*v = string(text)
		case *[]string:
			*v = append(*v, string(text))
		case *[]ManagerNode:
			*v = append(*v, ManagerNode{})
			err = (*v)[len(*v)-1].wire().decode(text)
		case wireMessage:
			err = v.decode(text)
		default:
			*m.unknown = append(*m.unknown, data[:n]...)
		}
		data = data[n:]
	}
	return err
}

// encode leaves out what is empty, as proto3 does.
func (m wireMessage) encode() (b []byte) {
	for _, f := range m.fields {
		var number uint64
		var texts []string
		switch v := f.value.(type) {
		case *bool:
			if *v {
				number = 1
			}
		case *uint64:
			number = *v
		case *string:
			texts = []string{*v}
		case *[]string:
			texts = *v
		case *[]ManagerNode:
			for i := range *v {
				texts = append(texts, string((*v)[i].wire().encode()))
			}
		case wireMessage:
			texts = []string{string(v.encode())}
		}
		if number != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, f.number, protowire.VarintType), number)
		}
		for _, t := range texts {
			if t != "" {
				b = protowire.AppendString(protowire.AppendTag(b, f.number, protowire.BytesType), t)
			}
		}
	}
	return append(b, *m.unknown...)
}
