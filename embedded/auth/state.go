package auth

import (
	"fmt"
	"slices"
)

// Root is the name of the user and of the role without which etcd does not enable auth. The role may do everything.
const Root = "root"

// State is what etcd has.
type State struct {
	Enabled  bool
	Revision uint64 // rises with every change
	Users    []User // by name
	Roles    []Role // by name
}

// User is a user that etcd has.
type User struct {
	Name       string
	NoPassword bool     // identified only by the common name of a certificate
	Hash       Secret   // bcrypt's, of the password
	Roles      []string // sorted
}

// Role is a role and what it permits.
type Role struct {
	Name        string
	Permissions []Permission
}

// Access is what a permission allows.
type Access string

const (
	ReadOnly  Access = "read"
	WriteOnly Access = "write"
	ReadWrite Access = "readwrite"
)

// Permission is the access to a range of keys in etcd's form. End "" means only Key, End "\x00" everything from Key on.
type Permission struct {
	Access   Access
	Key, End string
}

// String returns the permission as part of a sentence: "to read the prefix /registry/".
func (p Permission) String() string {
	switch {
	case p.span() == all:
		return fmt.Sprintf("to %s all keys", p.verb())
	case p.End == "":
		return fmt.Sprintf("to %s the key %q", p.verb(), p.Key)
	case p.End == "\x00":
		return fmt.Sprintf("to %s the keys from %q on", p.verb(), p.Key)
	case p.End == prefixEnd(p.Key):
		return fmt.Sprintf("to %s the prefix %q", p.verb(), p.Key)
	}
	return fmt.Sprintf("to %s the keys from %q to %q", p.verb(), p.Key, p.End)
}

func (p Permission) verb() string {
	if p.Access == ReadWrite {
		return "read and write"
	}
	return string(p.Access)
}

// span is the range to which a permission applies. etcd keeps one permission for each.
type span struct{ key, end string }

// all covers every key.
var all = span{"\x00", "\x00"}

func (p Permission) span() span { return span{p.Key, p.End} }

// prefixEnd returns the first key after all that begin with prefix, and "\x00" if there is none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return "\x00"
}

// user returns the user with a name, nil if there is none.
func (s State) user(name string) *User {
	if i := slices.IndexFunc(s.Users, func(u User) bool { return u.Name == name }); i >= 0 {
		return &s.Users[i]
	}
	return nil
}

func (s State) role(name string) *Role {
	if i := slices.IndexFunc(s.Roles, func(r Role) bool { return r.Name == name }); i >= 0 {
		return &s.Roles[i]
	}
	return nil
}

// Secret is a password or its hash. In every verb and in JSON, it shows only whether it is empty.
type Secret string

// Format implements [fmt.Formatter].
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.veiled()) }

// MarshalText implements [encoding.TextMarshaler], which JSON and zap use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.veiled()), nil }

func (s Secret) veiled() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}
