//go:build !etcd36

package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows are the allowed imports between holdfast's packages, by their paths below the module. A package that is
// missing here is not part of the design yet.
var arrows = map[string][]string{
	"cmd/holdfast":             {"cmd"},
	"cmd/config":               {"durable", "embedded/auth", "embedded/pki", "embedded/settings", "gossip", "metrics", "snapshot", "snapshot/s3", "volume", "volume/ebs"},
	"cmd/control":              {"cmd/config", "durable"},
	"cmd/child":                {"cmd/config", "durable", "embedded", "embedded/plan", "snapshot"},                                                                                                                                                                     // what of both may end its process
	"cmd/show":                 {"embedded/auth", "embedded/coordinator", "embedded/health", "embedded/pki", "embedded/pki/authorities", "embedded/plan", "snapshot", "volume"},                                                                                        // what people are told of a cluster
	"cmd/takeover":             {"cmd/backups", "cmd/certificates", "cmd/child", "cmd/config", "cmd/control", "cmd/node", "embedded", "embedded/generations", "embedded/health", "embedded/pki", "embedded/plan", "embedded/settings", "gossip", "snapshot", "volume"}, // a cluster that another program runs
	"cmd/demo":                 {"cmd/child", "cmd/config", "cmd/control", "cmd/show", "durable", "embedded/health"},
	"cmd/node":                 {"cmd/child", "cmd/config", "cmd/control", "cmd/show", "durable", "embedded", "embedded/auth", "embedded/coordinator", "embedded/generations", "embedded/health", "embedded/pki", "embedded/pki/authorities", "embedded/plan", "embedded/settings", "gossip", "metrics", "snapshot", "snapshot/s3", "volume", "volume/ebs"},
	"cmd/backups":              {"cmd/child", "cmd/config", "cmd/control", "cmd/node", "cmd/show", "durable", "embedded", "embedded/generations", "embedded/health", "embedded/plan", "snapshot", "snapshot/etcdclient"},                      // what commands do with them
	"cmd/proposal":             {"cmd/backups", "cmd/config", "cmd/control", "cmd/node", "cmd/show", "embedded/coordinator", "embedded/generations", "embedded/health", "embedded/plan", "snapshot"},                                          // how an operator ends a generation
	"cmd/observer":             {"cmd/certificates", "cmd/config", "cmd/node", "embedded", "embedded/coordinator", "embedded/health", "embedded/pki", "embedded/plan", "embedded/settings", "gossip", "gossip/discover", "metrics", "volume"}, // hears, and is no node
	"cmd/certificates":         {"cmd/config", "cmd/control", "cmd/node", "cmd/show", "durable", "embedded/health", "embedded/pki", "embedded/pki/authorities"},                                                                               // issues, renews, looks
	"cmd/etcdmanager":          {"cmd/config", "layout", "volume"},                                                                                                                                                                            // a translation; it asks nobody, and looks at this machine's disks
	"cmd/gorunner":             {},                                                                                                                                                                                                            // runs any program
	"cmd":                      {"cmd/backups", "cmd/certificates", "cmd/child", "cmd/config", "cmd/control", "cmd/demo", "cmd/etcdmanager", "cmd/gorunner", "cmd/node", "cmd/observer", "cmd/proposal", "cmd/show", "cmd/takeover", "embedded", "embedded/auth", "embedded/coordinator", "embedded/health", "embedded/pki", "embedded/pki/authorities", "embedded/plan", "gossip", "gossip/discover", "snapshot", "snapshot/etcdclient", "volume", "volume/ebs"},
	"durable":                  {},                                                                       // how a file is replaced, read and locked; nothing of what is in it
	"invalid":                  {},                                                                       // one error of what is wrong with a configuration
	"embedded/coordinator":     {"durable", "embedded/health", "embedded/plan"},                          // whose words a status is made of
	"embedded/generations":     {"embedded/coordinator", "embedded/health", "embedded/plan", "snapshot"}, // what is in the store, in the loop's words
	"embedded/health":          {"embedded/plan"},
	"embedded/plan":            {},
	"embedded/plan/model":      {},                                                                                           // a test, and no code
	"embedded/pki":             {"durable"},                                                                                  // certificates; etcd is told of files
	"embedded/pki/pkitest":     {},                                                                                           // tests of any package use it
	"embedded/pki/authorities": {"durable", "embedded/health", "embedded/pki", "embedded/plan", "snapshot"},                  // which are kept in the store
	"embedded/auth":            {"durable"},                                                                                  // the decision about users and roles, and their names, which the next one speaks
	"embedded/settings":        {},                                                                                           // read and judged without a server
	"embedded":                 {"durable", "embedded/auth", "embedded/pki", "embedded/plan", "embedded/settings", "layout"}, // whose words it speaks
	"layout":                   {"durable"},                                                                                  // where etcds have their data, and nothing of what is in it
	"gossip/discover":          {"durable"},
	"gossip":                   {"durable", "gossip/discover", "invalid"}, // whose names of slots, and records of them, it answers
	"metrics":                  {},
	"snapshot":                 {"durable"},
	"snapshot/s3":              {"invalid", "snapshot"},
	"snapshot/etcdclient":      {"snapshot"},
	"snapshot/snapshottest":    {"snapshot"},
	// stands in for a bucket: it knows nothing of those who use it
	"snapshot/snapshottest/gateway": {},
	"volume":                        {"durable", "layout"},
	"volume/device":                 {},
	"volume/device/devicetest":      {},
	"volume/ebs/model":              {}, // a test, and no code
	"volume/ebs":                    {"layout", "volume", "volume/device"},
	"volume/volumetest":             {"volume"},
	// stands in for a cloud: it knows nothing of those who use it
	"volume/volumetest/ec2test": {},
	"integration": {"embedded", "embedded/coordinator", "embedded/health", "embedded/plan", "gossip", "metrics", "snapshot", "volume", "integration/hosts",
		"snapshot/snapshottest/gateway", "volume/volumetest/ec2test"},
	"integration/hosts": {},
	// a program that shows holdfast on hosts: it runs the binary, and knows none of its packages
	"integration/demo": {"integration/hosts", "volume/volumetest/ec2test"},
	// what is left to make prove, whatever it is
	"integration/tier": {},
	// runs spin: it knows nothing of what is modelled
	"integration/spintest": {"integration/tier"},
	// breaks guards of a package and runs its tests: it knows nothing of what it breaks
	"integration/mutanttest": {"integration/tier"},
	// runs the cluster of the stories; etcd's tests come with it, which is why it is a package of its own
	"integration/faults": {"integration", "volume/volumetest/ec2test"},
}

// owners says which single package may import a library. To replace the library, or to understand its effects, it is
// enough to read that package.
var owners = []struct {
	library, owner, reason string
}{
	{"github.com/spf13/viper", "cmd/config", "configuration is read in one place and passed on as values"},
	{"github.com/spf13/cobra", "cmd", "the command line knows the packages, not they it"},
	{"go.etcd.io/etcd/server/v3", "embedded", "etcd's server can end the process in dozens of places; one package knows them"},
	{"github.com/hashicorp/memberlist", "gossip", "what a node says must not depend on how it is said"},
	{"github.com/aws/aws-sdk-go-v2/service/ec2", "volume/ebs", "a cloud is an implementation of a volume, nothing else"},
	{"github.com/aws/aws-sdk-go-v2/service/s3", "snapshot/s3", "a bucket is an implementation of a store, nothing else"},
}

const module = "holdfast"

// The imports are those of the design.
func TestImports(t *testing.T) {
	imports := listImports(t)
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		allowed, known := arrows[p]
		if !known {
			t.Errorf("package %s is not in the table of arrows: say there what it may import, and why in its doc.go", p)
		}
		for _, i := range imports[p] {
			if why := forbidden(p, allowed, i); why != "" {
				t.Errorf("%s imports %s: %s", p, i, why)
			}
		}
	}
	for p := range arrows {
		if _, ok := imports[p]; !ok {
			t.Errorf("the table of arrows has package %s, which does not exist", p)
		}
	}
}

// forbidden returns why a package must not import another one.
func forbidden(p string, allowed []string, i string) string {
	if ours, ok := strings.CutPrefix(i, module+"/"); ok {
		if !slices.Contains(allowed, ours) {
			return fmt.Sprintf("the only packages of ours it may import are %v", allowed)
		}
		return ""
	}
	if first, _, _ := strings.Cut(i, "/"); p == "embedded/plan" && strings.Contains(first, ".") {
		return "the decision imports the standard library only, so that it is pure, total and can be simulated"
	}
	for _, o := range owners {
		if (i == o.library || strings.HasPrefix(i, o.library+"/")) && p != o.owner {
			return fmt.Sprintf("only %s may: %s", o.owner, o.reason)
		}
	}
	return ""
}

// listImports returns the imports of the non-test files of each package, by the path below the module.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return imports
		}
		must(t, err)
		imports[strings.TrimPrefix(p.ImportPath, module+"/")] = p.Imports
	}
}

// The released binary links no story and no stand-in, not even indirectly.
func TestReleaseHasNoTestKit(t *testing.T) {
	all := dependenciesOf(t, module+"/cmd/holdfast")
	if !slices.Contains(all, module+"/cmd") {
		t.Fatalf("%d packages are linked into the binary, and cmd is not among them: the check is broken", len(all))
	}
	for _, p := range all {
		if kit(p) {
			t.Errorf("the binary contains %s, which is for tests: `go list -deps` with -f '{{.ImportPath}} {{.Imports}}' says who imports it", p)
		}
	}
	// The check works: this test program links both.
	found := slices.DeleteFunc(dependenciesOf(t, module+"/integration/demo"), func(p string) bool { return !kit(p) })
	for _, want := range []string{module + "/integration/hosts", module + "/volume/volumetest/ec2test"} {
		if !slices.Contains(found, want) {
			t.Errorf("in the program integration/demo the check finds %q, and not %s", found, want)
		}
	}
}

// serverless are the packages that need no member. Their tests start within a second, because they do not link etcd's
// server.
var serverless = []string{"cmd/config", "cmd/control", "cmd/etcdmanager", "cmd/show", "embedded/auth",
	"embedded/coordinator", "embedded/generations", "embedded/health", "embedded/pki", "embedded/pki/authorities",
	"embedded/plan", "embedded/settings", "gossip", "gossip/discover", "metrics", "snapshot/etcdclient", "snapshot/s3",
	"volume", "volume/ebs"}

// Neither these packages nor their tests link etcd's server, not even indirectly.
func TestServerIsLinkedWhereItRuns(t *testing.T) {
	const server = "go.etcd.io/etcd/server/"
	args := []string{"list", "-test", "-f", "{{.ImportPath}}\t{{.Deps}}", module + "/embedded"}
	for _, p := range serverless {
		args = append(args, module+"/"+p)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		p, deps, _ := strings.Cut(line, "\t")
		tested, _, _ := strings.Cut(p, " ")
		if got, want := strings.Contains(deps, server), strings.TrimSuffix(tested, ".test") == module+"/embedded"; got != want {
			t.Errorf("%s links etcd's server: %t, want %t; `go list -deps -test` with -f '{{.ImportPath}} {{.Imports}}' "+
				"says by which way", p, got, want)
		}
	}
}

// kit reports whether a package is for tests: a story or a tool for stories, a package of holdfast called …test, or
// package testing.
func kit(p string) bool {
	ours, ok := strings.CutPrefix(p, module+"/")
	return p == "testing" || ok && (ours == "integration" || strings.HasPrefix(ours, "integration/") ||
		slices.ContainsFunc(strings.Split(ours, "/"), func(element string) bool { return strings.HasSuffix(element, "test") }))
}

// dependenciesOf returns the packages that a program links.
func dependenciesOf(t *testing.T, program string) []string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-deps", program)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	return strings.Fields(string(out))
}

// The rules catch each kind of violation.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		p, i string
		bad  bool
	}{
		{"gossip", "holdfast/volume", true},
		{"embedded/coordinator", "holdfast/gossip", true},
		{"embedded/coordinator", "holdfast/embedded/plan", false},
		{"embedded/plan", "go.uber.org/zap", true},
		{"embedded/plan", "crypto/sha256", false},
		{"cmd", "github.com/spf13/viper", true},
		{"cmd/config", "github.com/spf13/viper", false},
		{"cmd", "go.etcd.io/etcd/server/v3/embed", true},
		{"embedded", "go.etcd.io/etcd/server/v3/embed", false},
		{"integration", "holdfast/cmd", true},
		{"cmd", "holdfast/integration/hosts", true},
		{"cmd", "holdfast/volume/volumetest/ec2test", true},
	} {
		if got := forbidden(c.p, arrows[c.p], c.i) != ""; got != c.bad {
			t.Errorf("%s imports %s: forbidden is %t, want %t", c.p, c.i, got, c.bad)
		}
	}
}
