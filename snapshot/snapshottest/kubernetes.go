package snapshottest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// FillKubernetes fills the database with what a Kubernetes cluster keeps in etcd, until it has about size bytes: pods,
// replica sets, secrets, config maps, events, leases and endpoint slices, in Kubernetes' protobuf format (a magic
// number, runtime.Unknown, metadata with managedFields, spec, status), 3.4 kB per entry. Four fifths are objects as a
// compaction leaves them, with one version each. The rest is later: updates of every fourth object, and tombstones. The
// content is the same every time. zstd's fastest level makes it five to six times smaller.
func (d *DB) FillKubernetes(size int64) {
	d.t.Helper()
	k := &kubernetes{random: rand.New(rand.NewChaCha8([32]byte{1}))}
	d.grow(size*4/5, func(tx *bbolt.Tx) error { return d.write(tx, k.create()) })
	d.update(func(tx *bbolt.Tx) error { return compactedAt(tx, d.rev) })
	d.grow(size, func(tx *bbolt.Tx) error {
		switch o := k.any(); k.random.IntN(8) {
		case 0:
			return d.write(tx, k.create())
		case 1:
			if !o.deleted && o.kind == "events" {
				o.deleted = true
				return d.tombstone(tx, o.key)
			}
			fallthrough
		default:
			if o.deleted {
				return nil
			}
			o.version++
			return d.write(tx, o)
		}
	})
}

// grow calls write, two hundred times per transaction, until the database has size bytes.
func (d *DB) grow(size int64, write func(tx *bbolt.Tx) error) {
	d.t.Helper()
	for reached := false; !reached; {
		d.update(func(tx *bbolt.Tx) error {
			reached = tx.Size() >= size
			for range 200 {
				if err := write(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// write writes the next version of an object.
func (d *DB) write(tx *bbolt.Tx, o *object) error {
	d.rev++
	if o.created == 0 {
		o.created = d.rev
	}
	return d.store(tx, revision(d.rev), &mvccpb.KeyValue{Key: []byte(o.key), Value: o.value(), CreateRevision: o.created,
		ModRevision: d.rev, Version: o.version})
}

// kubernetes makes objects.
type kubernetes struct {
	random  *rand.Rand
	objects []*object
}

// object is one object. Its content follows from its seed, except for what changes with each version.
type object struct {
	kind, key string
	seed      uint64
	created   int64
	version   int64
	deleted   bool
}

// kinds are the kinds of objects with their share in percent.
var kinds = []struct {
	name  string
	share int
}{{"pods", 42}, {"replicasets", 16}, {"secrets", 8}, {"configmaps", 8}, {"events", 16}, {"leases", 4},
	{"endpointslices", 6}}

func (k *kubernetes) create() *object {
	o := &object{kind: kinds[0].name, seed: k.random.Uint64(), version: 1}
	at := k.random.IntN(100)
	for _, kind := range kinds {
		if at -= kind.share; at < 0 {
			o.kind = kind.name
			break
		}
	}
	app := int(o.seed % 300)
	o.key = fmt.Sprintf("/registry/%s/team-%02d/app-%03d-%s", o.kind, app%20, app,
		hex.EncodeToString(binary.BigEndian.AppendUint64(nil, o.seed))[:10])
	k.objects = append(k.objects, o)
	return o
}

// any returns one of every fourth object: few objects are written often, most of them hardly ever.
func (k *kubernetes) any() *object { return k.objects[k.random.IntN(len(k.objects)/4)*4] }

// value returns the current version as Kubernetes stores it.
func (o *object) value() []byte {
	random := rand.New(rand.NewPCG(o.seed, 0))
	changing := rand.New(rand.NewPCG(o.seed, uint64(o.version)))
	app := int(o.seed % 300)
	team, name := fmt.Sprintf("team-%02d", app%20), o.key[strings.LastIndexByte(o.key, '/')+1:]
	stamp := fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+random.IntN(12), 1+random.IntN(28), random.IntN(24),
		random.IntN(60), random.IntN(60))

	var meta, body message
	meta.text(1, name)
	meta.text(3, team)
	meta.text(5, uuid(random))
	meta.text(8, stamp)
	for i, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version",
		"pod-template-hash"} {
		meta.nest(11, func(m *message) { m.text(1, label); m.text(2, fmt.Sprintf("app-%03d-%d", app, i)) })
	}
	meta.nest(13, func(m *message) {
		m.text(1, "ReplicaSet")
		m.text(3, fmt.Sprintf("app-%03d", app))
		m.text(4, uuid(rand.New(rand.NewPCG(uint64(app), 1))))
		m.text(5, "apps/v1")
	})
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		meta.nest(17, func(m *message) {
			m.text(1, manager)
			m.text(2, "Update")
			m.text(3, "v1")
			m.text(4, stamp)
			m.text(6, "FieldsV1")
			m.text(7, managed[o.kind])
		})
	}
	for _, of := range []string{"config", "secrets", "template", "image", "network"} {
		meta.nest(12, func(m *message) { m.text(1, "checksum/"+of); m.text(2, noise(changing, 32)) })
	}
	o.body(&body, app, random, changing)

	var unknown, kind message
	kind.text(1, "v1")
	kind.text(2, o.kind)
	unknown.bytes(1, kind)
	var whole message
	whole.bytes(1, meta)
	whole.bytes(2, body)
	unknown.bytes(2, whole)
	return append([]byte("k8s\x00"), unknown...)
}

// body writes spec, status or data.
func (o *object) body(b *message, app int, random, changing *rand.Rand) {
	switch o.kind {
	case "pods", "replicasets":
		for i := range 2 {
			b.nest(2, func(m *message) {
				m.text(1, fmt.Sprintf("container-%d", i))
				m.text(2, fmt.Sprintf("registry.example/team/app-%03d:v1.%d.%d", app, app%7, i))
				for _, name := range environment[:6] {
					m.nest(7, func(e *message) {
						e.text(1, name)
						e.text(2, fmt.Sprintf("http://%s.app-%03d.svc:8080/", strings.ToLower(name), app))
					})
				}
				m.text(14, "/dev/termination-log")
				m.text(20, "FallbackToLogsOnError")
			})
		}
		if o.kind == "replicasets" {
			return
		}
		for _, condition := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready",
			"PodReadyToStartContainers"} {
			b.nest(30, func(m *message) {
				m.text(1, condition)
				m.text(2, "True")
				m.text(4, fmt.Sprintf("2026-07-%02dT%02d:%02d:%02dZ", 1+changing.IntN(28), changing.IntN(24), changing.IntN(60),
					changing.IntN(60)))
			})
		}
		b.text(31, fmt.Sprintf("10.%d.%d.%d", random.IntN(256), random.IntN(256), random.IntN(256)))
		for range 3 {
			b.text(32, "containerd://"+noise(changing, 32))
			b.text(33, "registry.example/team/app@sha256:"+noise(rand.New(rand.NewPCG(uint64(app), 2)), 32))
		}
	case "secrets": // keys and certificates: only the base64 can be compressed
		for _, name := range []string{"tls.key", "tls.crt"} {
			b.nest(2, func(m *message) { m.text(1, name); m.text(2, noise(random, 2000)) })
		}
	case "configmaps":
		for i := range 12 {
			b.nest(2, func(m *message) {
				m.text(1, fmt.Sprintf("settings-%02d.yaml", i))
				m.text(2,
					fmt.Sprintf("server:\n  port: %d\n  timeout: %ds\nfeatures:\n  - name: %s\n    enabled: %t\nlog:\n  level: info\n",
						8000+random.IntN(1000),
						random.IntN(60), environment[random.IntN(len(environment))], random.IntN(2) == 0))
			})
		}
	case "events":
		b.text(3,
			fmt.Sprintf("Successfully pulled image \"registry.example/team/app-%03d\" in %d.%03ds (%dms including waiting)", app,
				random.IntN(9), random.IntN(1000), random.IntN(9999)))
		b.text(4, fmt.Sprintf("node-%03d.example.internal", random.IntN(200)))
		b.text(5, strings.Repeat("the container runtime reported the state of the image. ", 6))
	case "leases":
		b.text(1, fmt.Sprintf("node-%03d.example.internal", random.IntN(200)))
		b.text(4, fmt.Sprintf("2026-07-01T%02d:%02d:%02d.%06dZ", changing.IntN(24), changing.IntN(60), changing.IntN(60),
			changing.IntN(1e6)))
	case "endpointslices":
		for range 16 {
			b.nest(2, func(m *message) {
				m.text(1, fmt.Sprintf("10.%d.%d.%d", changing.IntN(256), changing.IntN(256), changing.IntN(256)))
				m.text(2, fmt.Sprintf("app-%03d-%s", app, noise(changing, 5)))
				m.text(3, fmt.Sprintf("node-%03d.example.internal", changing.IntN(200)))
				m.text(4, "eu-central-1a")
			})
		}
	}
}

// managed has metadata.managedFields of each kind, which is much of what Kubernetes stores.
var managed = func() map[string]string {
	all := map[string]string{}
	for i, kind := range kinds {
		var b strings.Builder
		b.WriteString(`{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/name":{}},"f:ownerReferences":{".":{}}},` +
			`"f:spec":{`)
		for j := range 6 {
			fmt.Fprintf(&b, `"f:%s%d":{".":{},"f:%s":{"f:path":{},"f:%s":{}}},`, kind.name, j,
				strings.ToLower(environment[(i+j)%len(environment)]), environment[(i*3+j)%len(environment)])
		}
		all[kind.name] = b.String() + `"f:status":{"f:phase":{},"f:podIP":{},"f:startTime":{}}}`
	}
	return all
}()

var environment = []string{"DATABASE_URL", "CACHE_HOST", "QUEUE", "TRACING_ENDPOINT", "METRICS", "FEATURES", "SEARCH",
	"MAIL_RELAY", "AUTH_ISSUER", "STORAGE"}

func uuid(r *rand.Rand) string {
	x := noise(r, 16)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// noise returns n random bytes in hex.
func noise(r *rand.Rand, n int) string {
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], r.Uint64())
	}
	return hex.EncodeToString(b[:n])
}

// message is a protobuf message under construction.
type message []byte

func (m *message) bytes(number protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), b)
}

func (m *message) text(number protowire.Number, s string) { m.bytes(number, []byte(s)) }

func (m *message) nest(number protowire.Number, fill func(*message)) {
	var inner message
	fill(&inner)
	m.bytes(number, inner)
}
