package integration_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/integration"
)

// secrets are the planted secrets by name, in every form in which they could be printed.
type secrets map[string][]string

// plant adds a secret. Its text and its bytes may be the same.
func (s secrets) plant(name, text string, data []byte) string {
	s[name] = []string{text}
	for _, b := range [][]byte{[]byte(text), data} {
		if len(b) > 0 {
			s[name] = append(s[name], string(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
				base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b))
		}
	}
	return text
}

// word plants a secret word that occurs nowhere else.
func (s secrets) word(name string) string { return s.plant(name, "Hf"+rand.Text(), nil) }

// in returns the name of a secret in text, and its line.
func (s secrets) in(text string) (name, line string) {
	for name, forms := range s {
		for _, form := range forms {
			if before, after, found := strings.Cut(text, form); found {
				return name, before[strings.LastIndexByte(before, '\n')+1:] + "<<here>>" + strings.SplitN(after, "\n", 2)[0]
			}
		}
	}
	return "", ""
}

// absent fails the test if text contains a secret. where names the source of the text.
func (s secrets) absent(t *testing.T, where, text string) {
	t.Helper()
	if name, line := s.in(text); name != "" {
		t.Errorf("%s: the %s is in it: %.400s", where, name, line)
	}
}

// watchCommandLines collects the command lines of all processes of the binary, until the returned function is called.
func watchCommandLines(binary string) (end func() string) {
	stop, done := make(chan struct{}), make(chan struct{})
	seen := map[string]bool{}
	go func() {
		defer close(done)
		for {
			processes, _ := filepath.Glob("/proc/[0-9]*")
			for _, dir := range processes {
				if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil && exe == binary {
					line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // the process may have ended
					seen[strings.ReplaceAll(string(line), "\x00", " ")] = true
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(25 * time.Millisecond): // a command takes longer
			}
		}
	}()
	return sync.OnceValue(func() string {
		close(stop)
		<-done
		var all strings.Builder
		for line := range seen {
			all.WriteString(line + "\n")
		}
		return all.String()
	})
}

// closed fails the test for every file below dir that other users may access.
func closed(t *testing.T, dir string) (files int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		if files++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return nil
	}))
	return files
}

// No secret of a node is in the output of the node or of a command, in its logs, its history, its answers or its
// arguments, whatever goes wrong. Other users can access no file that it writes.
func TestSecretsAreNotTold(t *testing.T) {
	story(t)
	s := secrets{}
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Env: []string{
		"AWS_ACCESS_KEY_ID=AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY=" + s.word("S3 secret key"), "AWS_SESSION_TOKEN=" + s.word("S3 session token"),
		"AWS_EC2_METADATA_DISABLED=true", "PLANTED=" + s.word("variable that a value names"),
	}})
	path, err := binary()
	must(t, err)
	lines := watchCommandLines(path)
	n := c.Nodes[0]
	planted := func(name, text string) string {
		file := filepath.Join(c.Dir, "keys", name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		return file
	}
	gossipKey := make([]byte, 32)
	_, err = rand.Read(gossipKey)
	must(t, err)
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	cert, key := expired(t)
	pem, err := os.ReadFile(key)
	must(t, err)
	s.plant("TLS key", strings.Split(string(pem), "\n")[1], nil) // its first line; keys differ after some common bytes
	named := planted("value", s.word("file that a value names"))
	n.Keys["gossip.key-file"] = planted("gossip", s.plant("gossip key", base64.StdEncoding.EncodeToString(gossipKey), gossipKey))
	n.Keys["snapshot.identity-file"] = planted("identity", s.plant("age identity", identity.String(), nil))
	n.Keys["snapshot.recipients"] = []string{identity.Recipient().String()}
	n.Keys["etcd.cert-file"], n.Keys["etcd.key-file"] = cert, key
	n.Keys["etcd.log-level"], n.Keys["log.level"] = "debug", "debug"
	n.Keys["volume.ebs.tags"] = []string{"${file:" + named + "}"}
	n.Keys["snapshot.s3.sse"], n.Keys["snapshot.s3.kms-key-id"] = "aws:kms", "${env:PLANTED}"

	var said bytes.Buffer
	say := func(args ...string) integration.Output {
		o := n.Command(args...)
		fmt.Fprintf(&said, "\n$ holdfast %s\n%s%s", strings.Join(args, " "), o.Out, o.Err)
		return o
	}
	good := func(args ...string) {
		if o := say(args...); o.Code != 0 {
			t.Errorf("holdfast %s: exit code %d: %s", strings.Join(args, " "), o.Code, o.Err)
		}
	}
	n.Start()
	c.Serving() // not Healthy: the certificate has expired
	fillWithSecrets(t, c, n, s, &said)
	say("status")
	say("status", "--why")
	say("status", "-o", "json")
	good("history", "-o", "json")
	for _, format := range []string{"table", "yaml", "json"} {
		good("config", "show", "-o", format)
	}
	good("snapshot", "save")
	good("snapshot", "list", "-o", "json")
	good("snapshot", "verify")
	good("snapshot", "drill", "latest")
	good("restore", "latest", "--to", filepath.Join(n.Dir, "restored"))
	say("doctor")
	for _, page := range []string{"status", "metrics", "readyz?verbose", "livez?verbose", "nothing"} {
		resp, err := http.Get(fmt.Sprintf("http://%s:2390/%s", n.Address, page))
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		fmt.Fprintf(&said, "\nGET %s\n%s", page, body)
	}

	// Reload: the content of the named file has changed.
	must(t, os.WriteFile(named, []byte(s.word("new value of the file")), 0o600))
	n.Signal(1)
	n.Logs("needs a restart", "volume.ebs.tags", "another value")

	// A store fails, and all files with secrets are wrong in every way.
	n.Stop()
	n.Keys["snapshot.store"], n.Keys["snapshot.s3.endpoint"], n.Keys["snapshot.s3.region"] = "s3://bucket/prefix", refusing(t), "eu-west-1"
	carol := planted("carol", s.word("password of auth.file"))
	users := planted("users", "enabled: true\nothers: keep\nusers:\n- {name: root, password-file: "+carol+", roles: [root]}\n- {name: carol, password-file: "+carol+"}")
	n.Keys["auth.file"] = users // root's password changes, and carol is new
	n.Start()
	c.Serving()
	o := n.Holdfast("auth", "check", users)
	if fmt.Fprintf(&said, "%s%s", o.Out, o.Err); o.Code != 0 {
		t.Errorf("auth check: exit code %d: %s", o.Code, o.Err)
	}
	good("auth", "apply", "--yes")
	say("auth", "plan")
	say("auth", "plan", "-o", "json")
	say("snapshot", "save")
	say("snapshot", "list")
	say("status", "--why")
	say("doctor")
	n.Stop()
	for _, wrong := range []struct{ key, text string }{
		{"gossip.key-file", s.word("broken gossip key")}, {"snapshot.identity-file", "AGE-SECRET-KEY-1" + s.word("broken identity")},
		{"snapshot.identity-file", "-----BEGIN OPENSSH PRIVATE KEY-----\n" + s.word("broken ssh key")},
		{"etcd.key-file", "-----BEGIN PRIVATE KEY-----\n" + s.word("broken TLS key") + "\n-----END PRIVATE KEY-----"},
	} {
		right := n.Keys[wrong.key]
		n.Keys[wrong.key] = planted("broken", wrong.text)
		n.Configure()
		say("config", "check")
		say("snapshot", "list")
		n.Keys[wrong.key] = right
	}
	for _, key := range []string{"log.level", "snapshot.every", "etcd.max-txn-ops", "volume.local.slot", "gossip.listen", "snapshot.s3.endpoint"} {
		right, had := n.Keys[key]
		n.Keys[key] = "${env:PLANTED}"
		n.Configure()
		if o := say("config", "check"); o.Code == 0 || !strings.Contains(o.Err, "${env:PLANTED}") {
			t.Errorf("%s: a word was accepted, or its reference is not named: %s%s", key, o.Out, o.Err)
		}
		if delete(n.Keys, key); had {
			n.Keys[key] = right
		}
	}

	s.absent(t, "the arguments of the processes", lines())
	s.absent(t, "what was said", said.String())
	if !strings.Contains(lines(), "drill-child") || !strings.Contains(said.String(), "DEGRADED") {
		t.Errorf("the story has not seen what it should: %s", lines())
	}
	written(t, s, n)
	if files := closed(t, n.Dir) + closed(t, c.Store); files < 20 {
		t.Errorf("only %d files were looked at", files)
	}
}

// refusing returns the address of an S3 that refuses everything and, like S3, repeats the request in its answer.
func refusing(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>InvalidToken</Code><Message>The provided token is malformed or otherwise invalid.</Message><Token-0>%s</Token-0></Error>",
			r.Header.Get("X-Amz-Security-Token"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// fillWithSecrets writes a secret into etcd, as a user with a secret password, and tries a wrong password.
func fillWithSecrets(t *testing.T, c *integration.Cluster, n *integration.Node, s secrets, said io.Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	enter := func(user, password string) (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: []string{"https://" + n.Address + ":2379"}, Context: ctx, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
			Username: user, Password: password, TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // an expired certificate is expected
	}
	first, err := enter("", "")
	must(t, err)
	defer first.Close()
	password := s.word("password of root")
	_, err = first.UserAdd(ctx, "root", password)
	must(t, err)
	_, err = first.UserGrantRole(ctx, "root", "root")
	must(t, err)
	_, err = first.AuthEnable(ctx)
	must(t, err)
	root, err := enter("root", password)
	must(t, err)
	defer root.Close()
	value := s.word("value in etcd")
	_, err = root.Put(ctx, "/registry/secrets/a", value)
	must(t, err)
	_, err = root.Txn(ctx).If(clientv3.Compare(clientv3.Value("/registry/secrets/a"), "=", value)).
		Then(clientv3.OpPut("/registry/secrets/b", s.word("value in a transaction")), clientv3.OpGet("/registry/secrets/a")).Commit()
	must(t, err)
	_, err = root.UserAdd(ctx, "other", s.word("password of another"))
	must(t, err)
	_, err = root.UserChangePassword(ctx, "other", s.word("changed password"))
	must(t, err)
	wrong, err := enter("root", s.word("wrong password"))
	if err == nil {
		wrong.Close()
		t.Error("a wrong password was taken")
	}
	fmt.Fprintln(said, err)
}

// written looks for the secrets in every file of the node except databases.
func written(t *testing.T, s secrets, n *integration.Node) {
	t.Helper()
	looked := map[string]bool{}
	must(t, filepath.WalkDir(n.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == "member" {
			return fs.SkipDir
		}
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked[e.Name()] = true
			s.absent(t, path, string(data))
		}
		return nil
	}))
	for _, name := range []string{"node.log", "history.jsonl", "founding.json"} {
		if !looked[name] {
			t.Errorf("%s was not looked at, only %v", name, looked)
		}
	}
}
