package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"holdfast/durable"
)

// Others says what happens to the users and roles that the file does not name.
type Others string

const (
	Keep   Others = "keep"
	Delete Others = "delete"
)

// Wanted is what a file says.
type Wanted struct {
	Enabled bool
	Others  Others
	Users   []WantedUser
	Roles   []Role
}

// WantedUser is a user that a file names.
type WantedUser struct {
	Name         string
	NoPassword   bool   // identified only by the common name of a certificate
	PasswordFile string // an absolute path, or relative to the working directory; "" with NoPassword
	Password     Secret // set by [Wanted.ReadPasswords]
	Unreadable   string // why the password could not be read; "" if it could
	Roles        []string
}

// maxFile bounds a file of users and roles, in bytes. A larger file is some other file, named by mistake.
const maxFile = 1 << 20

// Read reads a file of users and roles, but not the passwords yet. The error joins everything that is wrong, each
// problem with its line. Only the owner may have access to the file, or a node does not start with it.
func Read(path string) (Wanted, error) {
	data, err := durable.Read(path, maxFile)
	if err != nil {
		return Wanted{}, fmt.Errorf("read auth.file: %w", err)
	}
	w, err := parse(path, data)
	if err != nil {
		return Wanted{}, err
	}
	return w, durable.Private(path)
}

// parse reads the YAML of the file called name. Paths of password files are relative to its directory.
func parse(name string, data []byte) (Wanted, error) {
	p := &parser{file: name, dir: filepath.Dir(name)}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty; it says at least enabled: true or false")
		}
		return Wanted{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.errs = append(p.errs, fmt.Errorf("%s: must hold one document", name))
	}
	w := Wanted{Others: Keep}
	seen := p.mapping(doc.Content[0], "the file", map[string]func(*yaml.Node){
		"enabled": func(n *yaml.Node) { w.Enabled = p.flag(n, "enabled") },
		"others": func(n *yaml.Node) {
			if w.Others = Others(p.word(n, "others")); w.Others != Keep && w.Others != Delete {
				p.fail(n, "others: must be keep or delete, got %q", w.Others)
			}
		},
		"users": func(n *yaml.Node) { p.list(n, "users", func(n *yaml.Node) { w.Users = append(w.Users, p.user(n)) }) },
		"roles": func(n *yaml.Node) { p.list(n, "roles", func(n *yaml.Node) { w.Roles = append(w.Roles, p.role(n)) }) },
	})
	if !seen["enabled"] && (len(p.errs) == 0 || len(seen) > 0) { // otherwise it is no mapping, which was reported
		p.fail(doc.Content[0], "enabled: must be true or false")
	}
	if len(p.errs) == 0 {
		p.errs = w.check(name)
	}
	return w, errors.Join(p.errs...)
}

// check returns what is wrong with names beyond their form.
func (w Wanted) check(file string) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(file+": "+format, args...)) }
	var roles, users []string
	for _, r := range w.Roles {
		switch {
		case r.Name == Root:
			fail("role root: is etcd's own and may do everything: leave it out")
		case slices.Contains(roles, r.Name):
			fail("role %s: is there twice", r.Name)
		}
		roles = append(roles, r.Name)
	}
	for _, u := range w.Users {
		if slices.Contains(users, u.Name) {
			fail("user %s: is there twice", u.Name)
		}
		users = append(users, u.Name)
		for _, r := range u.Roles {
			if r != Root && !slices.Contains(roles, r) {
				fail("user %s: role %s is not in the file", u.Name, r)
			}
		}
		if u.Name == Root && !slices.Contains(u.Roles, Root) {
			fail("user root: must have the role root")
		}
	}
	if w.Enabled && !slices.Contains(users, Root) {
		fail("enabled: etcd needs a user root with the role root: add one, or nobody could change anything any more")
	}
	return errs
}

// parser walks the YAML nodes itself, because only nodes have line numbers, and because decoding stops at the first
// error.
type parser struct {
	file, dir string
	errs      []error
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.file, n.Line, fmt.Sprintf(format, args...)))
}

// mapping calls the function of each key that is there, and returns those keys.
func (p *parser) mapping(n *yaml.Node, what string, keys map[string]func(*yaml.Node)) map[string]bool {
	seen := map[string]bool{}
	if n.Kind != yaml.MappingNode {
		p.fail(n, "%s: must have keys and values", what)
		return seen
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, known := keys[key.Value]
		switch {
		case !known && key.Value == "password":
			p.fail(key, "%s: a password has no place here: write it into a file of its own, and name that as password-file",
				what)
		case !known:
			p.fail(key, "%s: unknown key %s", what, key.Value)
		case seen[key.Value]:
			p.fail(key, "%s: %s is there twice", what, key.Value)
		default:
			seen[key.Value] = true
			read(value)
		}
	}
	return seen
}

func (p *parser) list(n *yaml.Node, what string, item func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "%s: must be a list", what)
		return
	}
	for _, i := range n.Content {
		item(i)
	}
}

func (p *parser) flag(n *yaml.Node, what string) (on bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&on) != nil {
		p.fail(n, "%s: must be true or false", what)
	}
	return on
}

// word reads a text that is not empty.
func (p *parser) word(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" || strings.ContainsRune(n.Value, 0) {
		p.fail(n, "%s: must be a text that is not empty", what)
		return ""
	}
	return n.Value
}

func (p *parser) user(n *yaml.Node) (u WantedUser) {
	seen := p.mapping(n, "a user", map[string]func(*yaml.Node){
		"name":        func(n *yaml.Node) { u.Name = p.word(n, "name") },
		"no-password": func(n *yaml.Node) { u.NoPassword = p.flag(n, "no-password") },
		"password-file": func(n *yaml.Node) {
			if u.PasswordFile = p.word(n, "password-file"); u.PasswordFile != "" && !filepath.IsAbs(u.PasswordFile) {
				u.PasswordFile = filepath.Join(p.dir, u.PasswordFile)
			}
		},
		"roles": func(n *yaml.Node) {
			p.list(n, "roles", func(n *yaml.Node) {
				if r := p.word(n, "roles"); slices.Contains(u.Roles, r) {
					p.fail(n, "role %s is there twice", r)
				} else {
					u.Roles = append(u.Roles, r)
				}
			})
		},
	})
	if !seen["name"] {
		p.fail(n, "a user: must have a name")
	}
	if u.NoPassword == seen["password-file"] {
		p.fail(n,
			"user %s: must have either password-file, or no-password: true for one that is known by its certificate alone",
			u.Name)
	}
	return u
}

func (p *parser) role(n *yaml.Node) (r Role) {
	seen := p.mapping(n, "a role", map[string]func(*yaml.Node){
		"name": func(n *yaml.Node) { r.Name = p.word(n, "name") },
		"permissions": func(n *yaml.Node) {
			p.list(n, "permissions", func(n *yaml.Node) {
				next := p.permission(n)
				if slices.ContainsFunc(r.Permissions,
					func(o Permission) bool { return o.span() == next.span() && next.Key != "" }) {
					p.fail(n, "a permission for the same keys is there already: say the access to them once")
				}
				r.Permissions = append(r.Permissions, next)
			})
		},
	})
	if !seen["name"] {
		p.fail(n, "a role: must have a name")
	}
	return r
}

func (p *parser) permission(n *yaml.Node) (out Permission) {
	var key, prefix, from, to string
	var whole bool
	text := func(into *string, what string) func(*yaml.Node) {
		return func(n *yaml.Node) { *into = p.word(n, what) }
	}
	before := len(p.errs)
	p.mapping(n, "a permission", map[string]func(*yaml.Node){
		"access": func(n *yaml.Node) { out.Access = Access(p.word(n, "access")) },
		"key":    text(&key, "key"), "prefix": text(&prefix, "prefix"), "from": text(&from, "from"), "to": text(&to, "to"),
		"all": func(n *yaml.Node) { whole = p.flag(n, "all") },
	})
	if len(p.errs) > before {
		return out
	}
	if out.Access != ReadOnly && out.Access != WriteOnly && out.Access != ReadWrite {
		p.fail(n, "access: must be read, write or readwrite, got %q", out.Access)
	}
	switch {
	case key != "" && prefix+from+to == "" && !whole:
		out.Key = key
	case prefix != "" && key+from+to == "" && !whole:
		out.Key, out.End = prefix, prefixEnd(prefix)
	case from != "" && to != "" && key+prefix == "" && !whole:
		if out.Key, out.End = from, to; from >= to {
			p.fail(n, "to: must come after from, %q does not come after %q", to, from)
		}
	case whole && key+prefix+from+to == "":
		out.Key, out.End = all.key, all.end
	default:
		p.fail(n, "a permission: must have one of key, prefix, from and to, or all: true")
	}
	return out
}
