// Package auth keeps etcd's users and roles as a file says: it reads the file, compares it with what etcd has, and
// makes the difference one step at a time.
//
// # The file
//
// [Read] knows the YAML of auth.file (docs/auth.md). Passwords are in files of their own, which it names. A user or
// role that the file names is as the file says, in all: what etcd has beyond that is taken away. Of the others,
// `others` says whether they are kept or deleted.
//
// # The decision
//
// [Diff] is a pure function of what is wanted and what is present. Its steps are in an order in which the state after
// each of them is a good one: what is added comes before what is taken away, auth is enabled last of all and disabled
// first. While auth is enabled, user root is there and has the role root after every step: etcd itself refuses to break
// that, and no step asks for it. Nothing is remembered between two looks; whatever was interrupted follows from the
// next one.
//
// # The keeper
//
// [Keeper] makes the difference on the node that leads: when it begins to lead, when a file has changed, when somebody
// has changed etcd's users or roles otherwise, and every ten minutes. It talks to etcd inside the process, so it works
// when nobody knows root's password any more.
//
// # What it never does
//
// It never prints, logs or writes a password or its hash: both are a [Secret], which formats as nothing. It never
// deletes user root or role root, takes role root from user root, or enables auth while root's password is not known.
//
// # Dangers, all of etcd 3.7.3
//
// A password and its absence cannot be changed into each other: such a user is deleted and made again, but never
// user root. Granting a permission finds the one that it replaces by the first with the same key, so where
// two begin at one key the second would be granted twice (auth/store.go, RoleGrantPermission): it is revoked before.
package auth
