package auth

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := parse("/etc/hf/auth.yaml", []byte(`
enabled: true
others: delete
users:
- {name: root, password-file: root.pw, roles: [root]}
- {name: kube-apiserver, no-password: true, roles: [root]}
- {name: ann, password-file: /run/ann, roles: [app, all]}
roles:
- name: app
  permissions:
  - {access: read, key: /a}
  - {access: write, prefix: /app/}
  - {access: readwrite, from: /b, to: /d}
- {name: all, permissions: [{access: read, all: true}]}
- {name: none}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Wanted{Enabled: true, Others: Delete,
		Users: []WantedUser{{Name: Root, PasswordFile: "/etc/hf/root.pw", Roles: []string{Root}},
			{Name: "kube-apiserver", NoPassword: true, Roles: []string{Root}},
			{Name: "ann", PasswordFile: "/run/ann", Roles: []string{"app", "all"}}},
		Roles: []Role{{"app", []Permission{{ReadOnly, "/a", ""}, {WriteOnly, "/app/", "/app0"}, {ReadWrite, "/b", "/d"}}},
			{"all", []Permission{{ReadOnly, "\x00", "\x00"}}}, {Name: "none"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	text := fmt.Sprint(got.Roles[0].Permissions, got.Roles[1].Permissions)
	if want := `[to read the key "/a" to write the prefix "/app/" to read and write the keys from "/b" to "/d"] [to read all keys]`; text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

// Everything that is wrong is reported at once, with its line, and without anything that may be a password.
func TestParseErrors(t *testing.T) {
	_, err := parse("f", []byte(`enabled: yes please
others: some
user: []
users:
- {name: ann, password: hunter2}
- {name: bob, password-file: x, no-password: true}
- {password-file: x, roles: [a, a]}
roles:
- name: app
  permissions:
  - {access: execute, key: a}
  - {access: read, key: a, prefix: b}
  - {access: read, from: b, to: a}
  - {access: read}
  - {access: read, key: c}
  - {access: write, key: c}
`))
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	for _, want := range []string{
		"f:1: enabled: must be true or false", "f:2: others: must be keep or delete", "f:3: the file: unknown key user",
		"f:5: a user: a password has no place here", "f:5: user ann: must have either", "f:6: user bob: must have either",
		"f:7: a user: must have a name", "f:7: role a is there twice", `f:11: access: must be read, write or readwrite, got "execute"`,
		"f:12: a permission: must have one of", "f:13: to: must come after from", "f:14: a permission: must have one of", "f:16: a permission for the same keys",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Error("it quotes a password")
	}
	if n := strings.Count(text, "\n") + 1; n != 13 {
		t.Errorf("%d errors:\n%s", n, text)
	}
	for yaml, want := range map[string]string{
		"":                                  "it is empty",
		"[]":                                "must have keys and values",
		"users: [{name: a}]":                "enabled: must be true or false",
		"others: keep":                      "enabled: must be true or false",
		"enabled: true":                     "a user root with the role root",
		"enabled: true\n---\nenabled: true": "one document",
		"enabled: false\nenabled: true":     "enabled is there twice",
		"enabled: false\nusers: [{name: root, no-password: true}]":                              "user root: must have the role root",
		"enabled: false\nusers: [{name: a, no-password: true, roles: [x]}]":                     "role x is not in the file",
		"enabled: false\nroles: [{name: root}]":                                                 "etcd's own",
		"enabled: false\nroles: [{name: a}, {name: a}]":                                         "role a: is there twice",
		"enabled: false\nusers: [{name: a, no-password: true}, {name: a, no-password: true}]":   "user a: is there twice",
		"enabled: false\nroles: [{name: a, permissions: [{access: read, prefix: \"\"}]}]":       "must be a text that is not empty",
		"enabled: false\nusers: &x\n- {name: a, no-password: true}\nroles: *x":                  "must be a list",
		"enabled: false\nusers: [{name: a, no-password: false}]":                                "must have either",
		"enabled: false\nroles: [{name: a, permissions: [{access: read, all: true, key: a}]}]":  "must have one of",
		"enabled: false\nroles: [{name: a, permissions: [{access: read, prefix: a, from: b}]}]": "must have one of",
	} {
		if _, err := parse("f", []byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", yaml, err, want)
		}
	}
}

// Files that others may access are refused, and so are passwords that etcd could not take.
func TestFiles(t *testing.T) {
	path := files(t, two, map[string]string{"root.pw": "r", "ann.pw": ""})
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	w.ReadPasswords()
	if w.Users[0].Unreadable != "" || string(w.Users[0].Password) != "r" || !strings.Contains(w.Users[1].Unreadable, "1–72 bytes") {
		t.Errorf("got %+v", w.Users)
	}
	ann := filepath.Join(filepath.Dir(path), "ann.pw")
	for content, good := range map[string]bool{
		strings.Repeat("x", 72): true, strings.Repeat("x", 73): false, "with blanks \r\n": true, "two\nlines": false, "\x00": false,
	} {
		write(t, ann, content, 0o600)
		if _, err := readPassword(ann); (err == nil) != good {
			t.Errorf("%q: got %v", content, err)
		} else if err != nil && strings.Contains(err.Error(), content) {
			t.Errorf("it quotes the password: %v", err)
		}
	}
	write(t, path, two, 0o640)
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: got %v", err)
	}
	write(t, path, "enabled: false\n", 0o644) // it names no secrets, but a node does not start with it
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file without secrets that others may read: got %v", err)
	}
	write(t, path, strings.Repeat("#", maxFile+1), 0o600)
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "has more than 1048576 bytes") {
		t.Errorf("a large file: got %v", err)
	}
}

// Reading ends whatever a file contains, and Diff accepts what Read accepts.
func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte("enabled: true\nusers: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := parse("f", data)
		if err != nil {
			return
		}
		e := &etcd{}
		steps, _ := Diff(w, e.State, same)
		for _, s := range steps {
			if err := e.do(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	})
}
