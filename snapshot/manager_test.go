package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"holdfast/snapshot"
)

// backupInfo is etcd-manager's message etcd.BackupInfo, rebuilt from its definition (kubernetes-sigs/etcd-manager,
// pkg/apis/etcd/etcdapi.proto). Its parser is the one that etcd-manager uses.
func backupInfo(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), Type: kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if message != "" {
			f.TypeName = proto.String(message)
		}
		return f
	}
	const (
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		int32s  = descriptorpb.FieldDescriptorProto_TYPE_INT32
		int64s  = descriptorpb.FieldDescriptorProto_TYPE_INT64
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("etcdapi.proto"), Package: proto.String("etcd"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("ClusterSpec"), Field: []*descriptorpb.FieldDescriptorProto{
				field("member_count", 1, int32s, ""), field("etcd_version", 2, text, ""),
			}},
			{Name: proto.String("BackupInfo"), Field: []*descriptorpb.FieldDescriptorProto{
				field("etcd_version", 1, text, ""), field("timestamp", 2, int64s, ""), field("cluster_spec", 3, message, ".etcd.ClusterSpec"),
			}},
		},
	}, nil)
	must(t, err)
	return file.Messages().ByName("BackupInfo")
}

// TestManagerMetaIsAccepted parses holdfast's mark with a protobuf parser that refuses unknown fields, as
// etcd-manager's does.
func TestManagerMetaIsAccepted(t *testing.T) {
	info := backupInfo(t)
	for members, want := range map[int]string{
		3: `{"etcdVersion":"3.7.3","timestamp":"1782907200","clusterSpec":{"memberCount":3,"etcdVersion":"3.7.3"}}`,
		0: `{"etcdVersion":"3.7.3","timestamp":"1782907200"}`,
	} {
		m := forged(midday, "x")
		m.Members = members
		text, err := snapshot.EncodeManagerMeta(m)
		must(t, err)
		got, expected := dynamicpb.NewMessage(info), dynamicpb.NewMessage(info)
		must(t, protojson.Unmarshal([]byte(want), expected))
		if err := protojson.Unmarshal(text, got); err != nil || !proto.Equal(got, expected) {
			t.Errorf("%d members: want %s, got %s, %v", members, want, text, err)
		}
	}
	// For comparison: holdfast's own keys would be refused.
	if err := protojson.Unmarshal([]byte(`{"etcdVersion":"3.7.3","lineage":"l-1"}`), dynamicpb.NewMessage(info)); err == nil {
		t.Error("unknown field: want an error")
	}
	m := forged(midday, "x")
	m.Members = 3
	for _, c := range []struct{ ran, stored, want string }{
		{"3.7.3", "3.7.0", "3.7.3"}, {"3.7.3", "3.6.0", "3.6.0"}, {"3.7.3", "", "3.7.3"}, {"3.7.3", "six", "3.7.3"},
		{"3.6.16", "3.6.0", "3.6.16"}, {"3.5.9", "", "3.5.9"}, {"3.6.16", "3.5.0", "3.5.0"}, {"main", "3.6.0", "main"},
	} {
		m.EtcdVersion, m.StorageVersion = c.ran, c.stored
		text, err := snapshot.EncodeManagerMeta(m)
		must(t, err)
		if got, err := snapshot.DecodeManagerMeta(text); err != nil || got.EtcdVersion != c.want || strings.Count(string(text), c.want) != 2 {
			t.Errorf("etcd %s, storage version %q: want twice %s, got %s, %v", c.ran, c.stored, c.want, text, err)
		}
	}
	m.EtcdVersion = ""
	if text, err := snapshot.EncodeManagerMeta(m); err == nil {
		t.Errorf("no version: want an error, got %s", text)
	}
}

// TestManagerMetaIsRead reads marks of protobuf's own writer, in both styles, and those of older writers.
func TestManagerMetaIsRead(t *testing.T) {
	info := backupInfo(t)
	want := snapshot.Meta{EtcdVersion: "3.6.11", Created: time.Unix(1782864903, 0).UTC(), Members: 3}
	message := dynamicpb.NewMessage(info)
	must(t, protojson.Unmarshal([]byte(`{"etcdVersion":"3.6.11","timestamp":"1782864903","clusterSpec":{"memberCount":3,"etcdVersion":"3.6.11"}}`), message))
	for _, style := range []protojson.MarshalOptions{{}, {UseProtoNames: true}, {Multiline: true}, {EmitUnpopulated: true}} {
		text, err := style.Marshal(message)
		must(t, err)
		if got, err := snapshot.DecodeManagerMeta(text); err != nil || got != want {
			t.Errorf("%s: want %+v, got %+v, %v", text, want, got, err)
		}
	}
	for text, want := range map[string]snapshot.Meta{
		`{"etcdVersion":"3.6.11","timestamp":1782864903,"clusterSpec":{"memberCount":3}}`: want,
		`{"etcdVersion":"3.4.3","timestamp":"1"}`:                                         {EtcdVersion: "3.4.3", Created: time.Unix(1, 0).UTC()},
		`{"etcdVersion":"2.2.1","newKey":{"a":[1]}}`:                                      {EtcdVersion: "2.2.1"},
		`{"timestamp":null,"clusterSpec":null}`:                                           {},
		`{}`:                                                                              {},
	} {
		if got, err := snapshot.DecodeManagerMeta([]byte(text)); err != nil || got != want {
			t.Errorf("%s: want %+v, got %+v, %v", text, want, got, err)
		}
	}
	for _, text := range []string{
		"", "{", "[]", "7", `{"timestamp":"x"}`, `{"timestamp":1.5}`, `{"timestamp":"1782864903`, `{"timestamp":{}}`, `{"timestamp":"-1"}`,
		`{"timestamp":9223372036854775807}`, `{"timestamp":9223372036854775808}`, `{"etcdVersion":7}`, `{"clusterSpec":3}`, `{"clusterSpec":{"memberCount":"x"}}`,
		`{"etcdVersion":"3.6.11"} {}`,
	} {
		if got, err := snapshot.DecodeManagerMeta([]byte(text)); err == nil {
			t.Errorf("%s: want an error, got %+v", text, got)
		}
	}
}
