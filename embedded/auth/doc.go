// Package auth keeps etcd's users and roles as a file says. It reads the file, compares it with what etcd has, and
// makes the changes one step at a time.
//
// # The file
//
// [Read] parses the YAML of auth.file (docs/auth.md). Passwords are in files of their own, which auth.file names. A
// user or role that the file names is made exactly as the file says, and anything else that etcd has for it is removed.
// `others` says whether users and roles that the file does not name are kept or deleted.
//
// # The decision
//
// [Diff] is a pure function of what is wanted and what is there. The order of its steps leaves a valid state after each
// of them. Additions come before removals, auth is enabled last, and it is disabled first. While auth is enabled, user
// root exists and has the role root after every step: etcd refuses to break that, and no step asks for it. Nothing is
// remembered between two comparisons. Whatever was interrupted follows from the next one.
//
// # The keeper
//
// [Keeper] makes the changes on the node that leads: when it begins to lead, when a file has changed, when anyone else
// has changed etcd's users or roles, and every ten minutes. It talks to etcd inside the process, so it works even if
// nobody knows root's password any more.
//
// # What it never does
//
// It never prints, logs or writes a password or its hash: both are a [Secret], which formats as nothing. It never
// deletes user root or role root, takes role root from user root, or enables auth while root's password is not known.
//
// # Dangers of etcd 3.7.3
//
// A user with a password cannot be changed into one without, or back: such a user is deleted and made again, but never
// user root. Granting a permission replaces the first one with the same key. So if two permissions begin at one key,
// the second would be granted twice (auth/store.go, RoleGrantPermission); it is revoked before.
package auth
