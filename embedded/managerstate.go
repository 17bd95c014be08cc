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

// Field numbers.
const (
	stateNewCluster  = 1
	stateCluster     = 2
	stateVersion     = 3
	stateQuarantined = 4

	clusterSize  = 1
	clusterToken = 5
	clusterNodes = 7

	nodeName        = 1
	nodePeers       = 2
	nodeClients     = 3
	nodeQuarantined = 4
	nodeTLS         = 5
)

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
	s, err := parseManagerState(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errManagerState, path, err)
	}
	return s, nil
}

// errManagerState: etcd-manager did not write this file.
var errManagerState = errors.New("the file is not a state file of etcd-manager")

// Write replaces etcd-manager's file state on a volume atomically. etcd-manager itself writes it in place, and can
// never start again on a half-written one.
func (s *ManagerState) Write(volume string) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("write etcd-manager's state: %w", err)
	}
	path := filepath.Join(volume, managerStateFile)
	if err := (durable.File{Temp: path + ".tmp", Keep: 0o600}).Write(path, s.encode()); err != nil {
		return fmt.Errorf("write etcd-manager's state: %w", err)
	}
	return nil
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

func parseManagerState(data []byte) (*ManagerState, error) {
	s := &ManagerState{}
	err := eachField(data, func(f wireField) error {
		switch f.id() {
		case id(stateNewCluster, protowire.VarintType):
			s.NewCluster = f.number != 0
		case id(stateCluster, protowire.BytesType):
			return s.parseCluster(f.bytes)
		case id(stateVersion, protowire.BytesType):
			s.Version = string(f.bytes)
		case id(stateQuarantined, protowire.VarintType):
			s.Quarantined = f.number != 0
		default:
			s.unknown = append(s.unknown, f.raw...)
		}
		return nil
	})
	return s, err
}

func (s *ManagerState) parseCluster(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.id() {
		case id(clusterSize, protowire.VarintType):
			s.Size = f.number
		case id(clusterToken, protowire.BytesType):
			s.Token = string(f.bytes)
		case id(clusterNodes, protowire.BytesType):
			var n ManagerNode
			if err := n.parse(f.bytes); err != nil {
				return err
			}
			s.Nodes = append(s.Nodes, n)
		default:
			s.clusterUnknown = append(s.clusterUnknown, f.raw...)
		}
		return nil
	})
}

func (n *ManagerNode) parse(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.id() {
		case id(nodeName, protowire.BytesType):
			n.Name = string(f.bytes)
		case id(nodePeers, protowire.BytesType):
			n.PeerURLs = append(n.PeerURLs, string(f.bytes))
		case id(nodeClients, protowire.BytesType):
			n.ClientURLs = append(n.ClientURLs, string(f.bytes))
		case id(nodeQuarantined, protowire.BytesType):
			n.QuarantinedClientURLs = append(n.QuarantinedClientURLs, string(f.bytes))
		case id(nodeTLS, protowire.VarintType):
			n.TLS = f.number != 0
		default:
			n.unknown = append(n.unknown, f.raw...)
		}
		return nil
	})
}

func (s *ManagerState) encode() []byte {
	var cluster []byte
	cluster = appendNumber(cluster, clusterSize, s.Size)
	cluster = appendText(cluster, clusterToken, s.Token)
	for _, n := range s.Nodes {
		cluster = protowire.AppendTag(cluster, clusterNodes, protowire.BytesType)
		cluster = protowire.AppendBytes(cluster, n.encode())
	}
	cluster = append(cluster, s.clusterUnknown...)
	var b []byte
	b = appendNumber(b, stateNewCluster, flag(s.NewCluster))
	if len(cluster) > 0 {
		b = protowire.AppendTag(b, stateCluster, protowire.BytesType)
		b = protowire.AppendBytes(b, cluster)
	}
	b = appendText(b, stateVersion, s.Version)
	b = appendNumber(b, stateQuarantined, flag(s.Quarantined))
	return append(b, s.unknown...)
}

func (n ManagerNode) encode() []byte {
	b := appendText(nil, nodeName, n.Name)
	b = appendText(b, nodePeers, n.PeerURLs...)
	b = appendText(b, nodeClients, n.ClientURLs...)
	b = appendText(b, nodeQuarantined, n.QuarantinedClientURLs...)
	b = appendNumber(b, nodeTLS, flag(n.TLS))
	return append(b, n.unknown...)
}

// wireField is one field of a protobuf message.
type wireField struct {
	field  protowire.Number
	kind   protowire.Type
	number uint64 // value of a varint
	bytes  []byte // value of a string or message
	raw    []byte // tag and value
}

func (f wireField) id() [2]int { return id(f.field, f.kind) }

// id identifies a field by number and type. With another type it is not the field that we know.
func id(field protowire.Number, kind protowire.Type) [2]int { return [2]int{int(field), int(kind)} }

func eachField(data []byte, do func(wireField) error) error {
	for len(data) > 0 {
		f := wireField{}
		var tag int
		if f.field, f.kind, tag = protowire.ConsumeTag(data); tag < 0 {
			return protowire.ParseError(tag)
		}
		n := protowire.ConsumeFieldValue(f.field, f.kind, data[tag:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		switch f.kind {
		case protowire.VarintType:
			f.number, _ = protowire.ConsumeVarint(data[tag:])
		case protowire.BytesType:
			f.bytes, _ = protowire.ConsumeBytes(data[tag:])
		}
		f.raw, data = data[:tag+n], data[tag+n:]
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

func flag(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// appendNumber leaves out a zero, as proto3 does.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendText(b []byte, field protowire.Number, texts ...string) []byte {
	for _, t := range texts {
		if t != "" {
			b = protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), t)
		}
	}
	return b
}
