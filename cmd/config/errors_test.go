package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each wrong file must yield exactly these lines: no more, no less.
func TestFileErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"unknown keys": {
			"gossip:\n  seed: [a]\n  what-is-this: 1\ngosip: {listen: x}\nLog:\n  level: info\nsnapshot:\n  seeds-file: x\n",
			[]string{
				"gossip.seed: unknown key (config.yaml:2), did you mean gossip.seeds?",
				"gossip.what-is-this: unknown key (config.yaml:3)",
				"gosip: unknown key (config.yaml:4), did you mean gossip?",
				"Log: unknown key (config.yaml:5), did you mean log?",
				"snapshot.seeds-file: unknown key (config.yaml:8), did you mean gossip.seeds-file?",
			},
		},
		"values of the wrong kind": {
			"snapshot:\n  every: 15\n  retry: [1s]\ncluster:\n  slots: {a: b}\n  name: [x]\netcd:\n  max-txn-ops: -1\n  snapshot-count: ''\n  client-cert-auth: yes\n  feature-gates: [A]\n  quota-backend-bytes: 8 pounds\ngossip: hello\n",
			[]string{
				"snapshot.retry: must be a duration such as 15m, 1h30m or 7d, got a list (config.yaml:3)",
				"cluster.slots: must be a list of words without commas, got a section (config.yaml:5)",
				"cluster.name: must be one word, got a list (config.yaml:6)",
				"etcd.feature-gates: must be pairs of a name and true or false, got a list (config.yaml:11)",
				`gossip: must be a section with keys below it, got "hello" (config.yaml:13)`,
				`etcd.quota-backend-bytes: must be a number of bytes, such as 2147483648, 512MiB or 8GiB, got "8 pounds" (config.yaml:12)`,
				`etcd.max-txn-ops: must be a whole number, not negative, got "-1" (config.yaml:8)`,
				`etcd.snapshot-count: must be a whole number, not negative, got "" (config.yaml:9)`,
				`etcd.client-cert-auth: must be true or false, got "yes" (config.yaml:10)`,
				`snapshot.every: must be a duration such as 15m, 1h30m or 7d, got "15" (config.yaml:2)`,
			},
		},
		"paths of a shell": {
			"node: {data-dir: ~/data}\ngossip: {seeds-file: ~/seeds}\n",
			[]string{
				`node.data-dir: must not begin with ~, which only a shell knows, got "~/data" (config.yaml:1)`,
				`gossip.seeds-file: must not begin with ~, which only a shell knows, got "~/seeds" (config.yaml:2)`,
			},
		},
		"values out of range": {
			"cluster:\n  name: Big\n  slots: [a, a, B]\n  domain: local\n  founding: maybe\nnode:\n  address: 0.0.0.0\n  data-dir: ''\nlog: {level: fatal, format: xml}\nstop: {wait: -1s}\nsnapshot: {retry: 1ms}\nmetrics: {listen: here}\n",
			[]string{
				`cluster.name: must be 1–40 of a-z, 0-9 and inner -, got "Big" (config.yaml:2)`,
				`cluster.slots: must be unique, got "a" twice (config.yaml:3)`,
				`cluster.slots: each must be 1–16 of a-z, 0-9 and inner -, got "B" (config.yaml:3)`,
				`cluster.domain: must be a lower-case domain of two or more labels and at most 195 bytes, got "local" (config.yaml:4)`,
				`cluster.founding: must be auto or never, got "maybe" (config.yaml:5)`,
				`node.address: must be an IP address other nodes can reach, or auto, got "0.0.0.0" (config.yaml:7)`,
				`node.data-dir: must be a directory, got "" (config.yaml:8)`,
				`snapshot.retry: must be at least 1s, got 1ms (config.yaml:11)`,
				`metrics.listen: must be host:port with an IP address and port 0–65535, or "off", got "here" (config.yaml:12)`,
				`log.level: must be one of debug, info, warn, error, got "fatal" (config.yaml:9)`,
				`log.format: must be console or json, got "xml" (config.yaml:9)`,
				`stop.wait: must be 0s–10m, got -1s (config.yaml:10)`,
			},
		},
		"EBS volumes": {
			"cluster: {slots: [a, b, c]}\nvolume:\n  provider: ebs\n  ebs:\n    filesystem: zfs\n    takeover-after: 2h\n    tags: ['=x']\nsnapshot: {store: /holdfast-data/mounts/x}\nnode: {data-dir: /holdfast-data}\n",
			[]string{
				`volume.ebs.tags: must be KEY=VALUE or KEY, with a key of 1–127 and a value of at most 256 characters, got "=x" (config.yaml:7)`,
				`volume.ebs.filesystem: must be ext4 or xfs, got "zfs" (config.yaml:5)`,
				`volume.ebs.takeover-after: must be 0s–1h, got "2h0m0s" (config.yaml:6)`,
				`snapshot.store: must not lie in volume.ebs.mount-root (/holdfast-data/mounts) nor hold it, got "/holdfast-data/mounts/x" (config.yaml:8)`,
				`node.address: must be an address that the nodes on other instances reach, or auto, got "127.0.0.1"`,
			},
		},
		"addresses of members that are not taken over": {
			"cluster: {adopt: true, slots: [a, b, c], adopt-addresses: [b, 'b=10.0.0.x', '=10.0.0.1', c=0.0.0.0, c=10.0.0.3]}\n",
			[]string{
				`cluster.adopt-addresses: each must be SLOT=IP, as a=10.0.0.1, got "b" (config.yaml:1)`,
				`cluster.adopt-addresses: each must be SLOT=IP, as a=10.0.0.1, got "b=10.0.0.x" (config.yaml:1)`,
				`cluster.adopt-addresses: each must be SLOT=IP, as a=10.0.0.1, got "=10.0.0.1" (config.yaml:1)`,
				`cluster.adopt-addresses: each must be SLOT=IP, as a=10.0.0.1, got "c=0.0.0.0" (config.yaml:1)`,
			},
		},
		"addresses of slots that there are not": {
			"cluster: {adopt: true, slots: [a, b, c], adopt-addresses: [b=10.0.0.2, d=10.0.0.4]}\n",
			[]string{`cluster.adopt-addresses: must name slots of cluster.slots (a, b, c), got "d" (config.yaml:1)`},
		},
		"addresses without a takeover": {
			"cluster: {slots: [a, b, c], adopt-addresses: [b=10.0.0.2]}\n",
			[]string{"cluster.adopt-addresses: must not be set without cluster.adopt, got b=10.0.0.2 (config.yaml:1)"},
		},
		"contradictions": {
			"cluster: {slots: [a, b, c]}\nvolume:\n  local:\n    slot: d\n    root: /v\nmetrics: {listen: ':2379'}\nsnapshot:\n  store: /v/x\n  scratch: /\netcd: {listen-peer-urls: ['http://localhost:7946']}\n",
			[]string{
				"etcd.listen-client-urls: must not share an address and port with metrics.listen, got 127.0.0.1:2379 (derived from node.address)",
				"etcd.listen-peer-urls: must not share an address and port with gossip.listen, got 127.0.0.1:7946 (config.yaml:10)",
				`snapshot.store: must not lie in volume.local.root (/v) nor hold it, got "/v/x" (config.yaml:8)`,
				`snapshot.scratch: must not lie in volume.local.root (/v) nor hold it, got "/" (config.yaml:9)`,
				`snapshot.scratch: must not lie in snapshot.store (/v/x) nor hold it, got "/" (config.yaml:9)`,
				`volume.local.slot: must be one of cluster.slots (a, b, c), got "d" (config.yaml:4)`,
			},
		},
		"a volume without its slot, and two places": {
			"volume:\n  local:\n    directory: /mnt/x\n    root: /v\nsnapshot: {store: /mnt/x/backups}\n",
			[]string{
				`volume.local.slot: must be set with volume.local.directory (/mnt/x): nothing else says which slot that is`,
				`snapshot.store: must not lie in volume.local.directory (/mnt/x) nor hold it, got "/mnt/x/backups" (config.yaml:5)`,
				`volume.local.root: must not be set with volume.local.directory (/mnt/x), which is the volume itself, got "/v" (config.yaml:4)`,
			},
		},
		"backups": {
			"node: {data-dir: /d}\nsnapshot:\n  store: s3://bucket/etcd\n  spool: /d/volumes/s\n  scratch: /d/volumes/s/x\n  every: 5m\n  cron: '*/15 * * * *'\n" +
				"  format: etcd-manager\n  recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]\n  drill: 0s\n",
			[]string{
				`snapshot.spool: must not lie in volume.local.root (/d/volumes) nor hold it, got "/d/volumes/s" (config.yaml:4)`,
				`snapshot.scratch: must not lie in volume.local.root (/d/volumes) nor hold it, got "/d/volumes/s/x" (config.yaml:5)`,
				`snapshot.scratch: must not lie in snapshot.spool (/d/volumes/s) nor hold it, got "/d/volumes/s/x" (config.yaml:5)`,
				`snapshot.recipients: must be empty with snapshot.format etcd-manager, which knows no encryption, got 1 (config.yaml:9)`,
				`snapshot.cron: must be empty where snapshot.every is set (to 5m), got "*/15 * * * *" (config.yaml:7)`,
			},
		},
		"a recipient that is none": {
			"snapshot:\n  recipients:\n  - x\n  drill: 0s\n",
			[]string{`snapshot.recipients: number 1: must be age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …: malformed recipient "x": separator '1' at invalid position: pos=-1, len=1 (config.yaml:2)`},
		},
		"an invalid bucket name": {
			"snapshot: {store: 's3://My Bucket/etcd'}\n",
			[]string{`snapshot.store: "s3://My Bucket/etcd": must be s3://bucket/prefix with a bucket name of 3-63 letters, digits, dots or dashes, got "My Bucket" (config.yaml:1)`},
		},
		"spool in the store": {
			"snapshot: {store: /b, spool: /b/spool, scratch: /b}\n",
			[]string{
				`snapshot.spool: must not lie in snapshot.store (/b) nor hold it, got "/b/spool" (config.yaml:1)`,
				`snapshot.scratch: must not lie in snapshot.store (/b) nor hold it, got "/b" (config.yaml:1)`,
				`snapshot.scratch: must not lie in snapshot.spool (/b/spool) nor hold it, got "/b" (config.yaml:1)`,
			},
		},
		"TLS off where others reach it": {
			"node: {address: 10.0.0.1}\ntls:\n  mode: off\n",
			[]string{`tls.mode: must not be off where other machines reach etcd (node.address 10.0.0.1), and anyone who does could read and write every secret: ` + waysOut + ` (config.yaml:3)`},
		},
		"TLS auto without a shared store": {
			"cluster: {slots: [a, b, c]}\nnode: {address: 10.0.0.1}\n",
			[]string{`snapshot.store: must be set to what all nodes share with tls.mode auto and 3 slots, got a directory of this node alone, so that each would trust only itself: ` + waysOut + ` (derived from node.data-dir)`},
		},
		"TLS ca without authorities": {
			"tls: {mode: ca, peer-ca-file: /nowhere/ca.crt, ca-life: 1d}\n",
			[]string{
				`tls.ca-life: must be at least twice tls.leaf-life (2160h0m0s), got 24h0m0s (config.yaml:1)`,
				"tls.client-ca-file: must be set with tls.mode ca, or tls.ca-dir for all four files; `holdfast tls init DIR` makes them",
				"tls.client-ca-key-file: must be set with tls.mode ca, or tls.ca-dir for all four files; `holdfast tls init DIR` makes them",
				`tls.peer-ca-file: must be a file, got "/nowhere/ca.crt": stat /nowhere/ca.crt: no such file or directory (config.yaml:1)`,
				"tls.peer-ca-key-file: must be set with tls.mode ca, or tls.ca-dir for all four files; `holdfast tls init DIR` makes them",
			},
		},
		"TLS auto, and anyone on the way to the store reads what is shared": {
			"node: {address: 10.0.0.1}\nsnapshot: {store: s3://bucket/etcd, s3: {endpoint: \"http://10.0.0.9:9000\"}}\n",
			[]string{"snapshot.s3.endpoint: must be https with tls.mode auto, got \"http://10.0.0.9:9000\": the keys of the authorities would cross the network in the clear; or set snapshot.recipients, which encrypts them, use tls.mode ca (`holdfast tls init DIR`), or say tls.mode auto with tls.insecure true (config.yaml:2)"},
		},
		"TLS auto, and nobody can read what is shared": {
			"node: {address: 10.0.0.1}\nsnapshot: {store: /shared, recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}\n",
			[]string{"snapshot.identity-file: must be set with tls.mode auto and snapshot.recipients, for the authorities that the nodes share are encrypted like the backups; or use tls.mode ca (`holdfast tls init DIR`)"},
		},
		"TLS that is issued and given": {
			"node: {data-dir: /d}\netcd:\n  listen-peer-urls: ['http://127.0.0.1:2380']\n  peer-cert-allowed-cn: [x]\n  cert-file: /x.pem\ntls: {mode: auto, ca-dir: /x, dir: /d/volumes/tls}\n",
			[]string{
				`etcd.listen-peer-urls: must be https because a certificate is set or issued, got "http://127.0.0.1:2380" (config.yaml:3)`,
				`etcd.cert-file: must be empty with tls.mode auto, in which holdfast issues it, got "/x.pem"; certificates of your own are tls.mode files (config.yaml:5)`,
				`etcd.peer-cert-allowed-cn: must be empty with tls.mode auto, in which holdfast issues the members' certificates, got ["x"] (config.yaml:4)`,
				`tls.ca-dir: must be empty with tls.mode auto, got "/x": only tls.mode ca has given authorities (config.yaml:6)`,
				`tls.dir: must not lie in volume.local.root (/d/volumes), for it is this machine's own, got "/d/volumes/tls" (config.yaml:6)`,
			},
		},
		"TLS of unknown kind": {
			"tls: {mode: maybe, leaf-life: 1s}\n",
			[]string{`tls.mode: must be one of files, ca, auto, off, got "maybe" (config.yaml:1)`, `tls.leaf-life: must be at least 3s, got 1s (config.yaml:1)`},
		},
		"TLS for clients alone, and http beside it": {
			"node: {address: 10.0.0.1}\ntls:\n  mode: auto\n  clients-only: true\n  plain-clients: true\n",
			[]string{
				"tls.clients-only: must be false with tls.mode auto, got true: it is for mode ca; in mode files leave the etcd.peer-*-file keys empty (config.yaml:4)",
				"tls.clients-only: must be false where other machines reach etcd (node.address 10.0.0.1), got true, unless tls.insecure is true (config.yaml:4)",
				"tls.plain-clients: must be false where other machines reach etcd (node.address 10.0.0.1), got true, unless tls.insecure is true (config.yaml:5)",
			},
		},
		"members from http, and no https": {
			"node: {address: 10.0.0.1}\ntls:\n  from-http: true\n  mode: off\n  insecure: true\n",
			[]string{
				`etcd.listen-peer-urls: must hold URLs with http and with https, at different ports, with tls.from-http, got ["http://10.0.0.1:2380"] (derived from node.address)`,
				"tls.from-http: must be false where members have no TLS, got true with tls.mode off: it is for modes auto and ca, and for files with the etcd.peer-*-file keys (config.yaml:3)",
			},
		},
		"members from http, and nobody said that it may be": {
			"node: {address: 10.0.0.1}\nsnapshot: {store: /shared}\netcd: {listen-peer-urls: ['http://10.0.0.1:2380', 'https://10.0.0.1:2381']}\ntls: {mode: auto, from-http: true}\n",
			[]string{"tls.from-http: must be false where other machines reach etcd (node.address 10.0.0.1), got true, unless tls.insecure is true (config.yaml:4)"},
		},
		"http for members without the key": {
			"snapshot: {store: /shared}\netcd: {listen-peer-urls: ['http://127.0.0.1:2380', 'https://127.0.0.1:2381']}\ntls: {mode: auto}\n",
			[]string{`etcd.listen-peer-urls: must be https because a certificate is set or issued, got "http://127.0.0.1:2380" (config.yaml:2)`},
		},
		"http beside no TLS": {
			"tls: {plain-clients: true}\n",
			[]string{"tls.plain-clients: must be false with tls.mode off and no etcd.cert-file, got true: clients have no TLS (config.yaml:1)"},
		},
		"restore": {
			"restore: {automatic: perhaps, foreign-commands: maybe, revision-bump: -1, reclaim-after: -1h}\n",
			[]string{
				`restore.automatic: must be true or false, got "perhaps" (config.yaml:1)`,
				`restore.foreign-commands: must be true or false, got "maybe" (config.yaml:1)`,
				`restore.revision-bump: must be 0–1000000000000, got -1 (config.yaml:1)`,
				`restore.reclaim-after: must be 0s (never) or more, got -1h0m0s (config.yaml:1)`,
			},
		},
		"upkeep": {
			"upkeep: {defrag-free-percent: 5, defrag-free-bytes: -1, full-percent: 100, cure-nospace: maybe}\n",
			[]string{
				`upkeep.defrag-free-bytes: must be a number of bytes, such as 2147483648, 512MiB or 8GiB, got "-1" (config.yaml:1)`,
				`upkeep.cure-nospace: must be true or false, got "maybe" (config.yaml:1)`,
				`upkeep.defrag-free-percent: must be 0 (never) or 10–95, got 5 (config.yaml:1)`,
				`upkeep.full-percent: must be 50–99, got 100 (config.yaml:1)`,
			},
		},
		"listeners on every address": {
			"gossip: {listen: '0.0.0.0:2380'}\nmetrics: {listen: '[::]:2379'}\n",
			[]string{
				"etcd.listen-client-urls: must not share an address and port with metrics.listen, got 127.0.0.1:2379 (derived from node.address)",
				"etcd.listen-peer-urls: must not share an address and port with gossip.listen, got 127.0.0.1:2380 (derived from node.address)",
			},
		},
		"what follows from an error is not one": {
			"cluster: {slots: {}}\nvolume: {local: {slot: b}}\nnode: {address: nowhere}\n",
			[]string{
				"cluster.slots: must be a list of words without commas, got a section (config.yaml:1)",
				`node.address: must be an IP address other nodes can reach, or auto, got "nowhere" (config.yaml:3)`,
			},
		},
		"duplicates": {
			"log:\n  level: info\n  level: warn\nstop: {wait: 1s}\nlog:\n  format: json\nstop.wait: 2s\n",
			[]string{
				"log.level: must be given once, got it at line 2 already (config.yaml:3)",
				"log: must be given once, got it at line 1 already (config.yaml:5)",
				"stop.wait: must be given once, got it at line 4 already (config.yaml:7)",
			},
		},
		"socket":         {"control: {socket: /" + strings.Repeat("x", 107) + "}", []string{fmt.Sprintf(`control.socket: must be a path of at most 107 bytes, got 108: "/%s" (config.yaml:1)`, strings.Repeat("x", 107))}},
		"tab":            {"log:\n\tlevel: info\n", []string{"config.yaml:2: found character that cannot start any token (YAML indents with spaces, not tabs)"}},
		"garbage":        {"a: b: c\n", []string{"config.yaml:1: mapping values are not allowed in this context"}},
		"binary":         {"log:\n  level: \x00\n", []string{"config.yaml:2: must be UTF-8 text"}},
		"latin-1":        {"\xe4: 1", []string{"config.yaml:1: must be UTF-8 text"}},
		"list":           {"- a\n- b\n", []string{"config.yaml:1: must be a mapping of sections such as cluster and node, got a list"}},
		"second file":    {"log: {level: info}\n---\nlog: {level: warn}\n", []string{"config.yaml:2: must hold one document, a second one begins"}},
		"comma":          {"gossip: {seeds: ['a,b']}", []string{"gossip.seeds: must be a list of words without commas, got a list (config.yaml:1)"}},
		"nested list":    {"gossip: {seeds: [[a]]}", nil},
		"endless alias":  {"gossip: &g {seeds: [*g]}", nil},
		"alias of alias": {"cluster: {slots: &s [a]}\ngossip: {seeds: *s}\nnode: {name: n1}", []string{}},
		"too large":      {"#" + strings.Repeat("x", maxFile), []string{"read config file: config.yaml: has more than 1048576 bytes"}},
	} {
		file := writeFile(t, tt.text)
		_, err := Load(file, nil, []string{"HOLDFAST_NODE_NAME=n1"})
		got := problems(err, file)
		if tt.want == nil && len(got) == 1 { // any one error
			continue
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
		}
	}
}

// Wrong flags, variables and lines are reported together.
func TestErrorsOfAllSources(t *testing.T) {
	file := writeFile(t, "log:\n  level: loud\n  colour: red\n")
	_, err := Load(file, parseFlags(t, "--stop.wait=soon", "--etcd.client-cert-auth=maybe", "--node.name=n1"), []string{
		"HOLDFAST_CLUSTER_NAME=-", "HOLDFAST_GOSSIP_SEED=x", "HOLDFAST_GOSSIP_SECRET=x", "HOLDFAST_SNAPSHOT_EVERY=often",
	})
	want := []string{
		"log.colour: unknown key (config.yaml:3)",
		"HOLDFAST_GOSSIP_SECRET: unknown variable",
		"HOLDFAST_GOSSIP_SEED: unknown variable, did you mean HOLDFAST_GOSSIP_SEEDS?",
		`etcd.client-cert-auth: must be true or false, got "maybe" (flag --etcd.client-cert-auth)`,
		`snapshot.every: must be a duration such as 15m, 1h30m or 7d, got "often" (env HOLDFAST_SNAPSHOT_EVERY)`,
		`stop.wait: must be a duration such as 15m, 1h30m or 7d, got "soon" (flag --stop.wait)`,
		`cluster.name: must be 1–40 of a-z, 0-9 and inner -, got "-" (env HOLDFAST_CLUSTER_NAME)`,
		`log.level: must be one of debug, info, warn, error, got "loud" (config.yaml:2)`,
	}
	if got := problems(err, file); !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	for name, file := range map[string]string{
		"missing":   filepath.Join(t.TempDir(), "none.yaml"),
		"directory": t.TempDir(),
	} {
		_, err := Load(file, parseFlags(t, "--stop.wait=soon", "--node.name=n1"), nil)
		if got := problems(err, file); len(got) != 2 || !strings.Contains(got[0], "config file: ") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"gossip", "gossip.seeds", "gossip.seeds-file", "log.level", "etcd.log-level", "gossip.key-file", "etcd.key-file"}
	for name, want := range map[string]string{
		"gossip.seed": "gossip.seeds", "gossip.seeds_file": "gossip.seeds-file", "gosip": "gossip", "loglevel": "log.level",
		"volume.seeds": "gossip.seeds", "volume.key-file": "", "": "", "x": "", "entirely.different": "",
	} {
		if got := nearest(name, candidates); got != want {
			t.Errorf("nearest(%q): got %q, want %q", name, got, want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"ab", "abc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"a", "abcdefghijk", 9}} {
		if got := distance(tt.a, tt.b, 9); got != tt.want {
			t.Errorf("distance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// Whatever the file holds, reading it ends, with settings of known keys and
// errors that name the file; and what was read can be judged.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(DefaultYAML))
	for _, seed := range []string{
		"", "~", "a: &a [*a]", "<<: {log: {level: info}}", "log: &l\n  level: *l\n", "? [a]\n: b\n", "log.level: info",
		"--- {}\n--- {}\n", "etcd: {feature-gates: {A: true, [b]: false}}", "\xff\xfe", "!!binary x", "%YAML 9.9\n---\n",
	} {
		f.Add([]byte(seed))
	}
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Name] = true
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		settings, errs := parse("config.yaml", data)
		for _, s := range settings {
			if !known[s.Key] || !strings.HasPrefix(s.Origin, "file config.yaml:") {
				t.Errorf("setting %+v", s)
			}
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), "config.yaml") {
				t.Errorf("error without its place: %v", err)
			}
		}
		l := Loaded{Config: Default(), Origin: map[string]string{}, shown: map[string]string{}}
		errs = append(errs, l.decode(merge(nil, settings), nil)...)
		if !readsFiles(l.Config) {
			derive(&l.Config, l.Origin, nil)
			l.check(errs)
		}
	})
}

// readsFiles reports whether validating c opens files, which a fuzzer must not choose.
func readsFiles(c Config) bool {
	e, t := c.Etcd, c.TLS
	return t.CADir+t.ClientCAFile+t.ClientCAKeyFile+t.PeerCAFile+t.PeerCAKeyFile+e.CertFile+e.KeyFile+e.TrustedCAFile+e.PeerCertFile+e.PeerKeyFile+e.PeerTrustedCAFile != ""
}
