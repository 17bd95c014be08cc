package auth

import (
	"fmt"
	"slices"
)

// Kind is what a step does.
type Kind string

const (
	Disable    Kind = "disable"
	AddRole    Kind = "add-role"
	Grant      Kind = "grant"
	Revoke     Kind = "revoke"
	DeleteRole Kind = "delete-role"
	AddUser    Kind = "add-user"
	Password   Kind = "password"
	GiveRole   Kind = "give-role"
	TakeRole   Kind = "take-role"
	DeleteUser Kind = "delete-user"
	Enable     Kind = "enable"
)

// Step is one atomic change of etcd's users and roles.
type Step struct {
	Kind       Kind
	User       string     `json:",omitempty"`
	Role       string     `json:",omitempty"`
	Permission Permission `json:"-"`
	NoPassword bool       `json:",omitempty"`
	Password   Secret     `json:"-"`
}

// String describes the step, without a secret.
func (s Step) String() string {
	switch s.Kind {
	case AddRole:
		return fmt.Sprintf("add role %s", s.Role)
	case Grant:
		return fmt.Sprintf("permit role %s %s", s.Role, s.Permission)
	case Revoke:
		return fmt.Sprintf("no longer permit role %s %s", s.Role, s.Permission)
	case DeleteRole:
		return fmt.Sprintf("delete role %s", s.Role)
	case AddUser:
		if s.NoPassword {
			return fmt.Sprintf("add user %s, without a password", s.User)
		}
		return fmt.Sprintf("add user %s, with its password", s.User)
	case Password:
		return fmt.Sprintf("change the password of user %s", s.User)
	case GiveRole:
		return fmt.Sprintf("give user %s the role %s", s.User, s.Role)
	case TakeRole:
		return fmt.Sprintf("take the role %s from user %s", s.Role, s.User)
	case DeleteUser:
		return fmt.Sprintf("delete user %s", s.User)
	}
	return string(s.Kind) + " auth"
}

// Matcher reports whether a hash is that of a password. It may be slow.
type Matcher func(hash, password Secret) bool

// Diff returns the steps from have to want, and what cannot be done, one sentence each. Each step is possible after
// those before it, and it is safe to stop after any step.
func Diff(want Wanted, have State, matches Matcher) (steps []Step, problems []string) {
	d := &diff{want: want, have: have, matches: matches}
	if have.Enabled && !want.Enabled {
		d.step(Step{Kind: Disable})
	}
	d.addRoles()
	for _, u := range want.Users {
		d.user(u)
	}
	d.drop()
	d.steps = append(d.steps, d.removals...)
	if want.Enabled && !have.Enabled {
		if why := d.rootless(); why != "" {
			d.problem("auth is not enabled: %s", why)
		} else {
			d.step(Step{Kind: Enable})
		}
	}
	return d.steps, d.problems
}

// diff collects the steps.
type diff struct {
	want     Wanted
	have     State
	matches  Matcher
	steps    []Step
	removals []Step // these come after everything that is added
	problems []string
}

func (d *diff) step(s Step) { d.steps = append(d.steps, s) }

func (d *diff) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

// addRoles adds the missing roles, and gives each role the permissions that it lacks. Role root needs none, but tools
// that list the roles expect it.
func (d *diff) addRoles() {
	if d.want.Enabled && d.have.role(Root) == nil {
		d.step(Step{Kind: AddRole, Role: Root})
	}
	for _, want := range d.want.Roles {
		have := d.have.role(want.Name)
		if have == nil {
			d.step(Step{Kind: AddRole, Role: want.Name})
			have = &Role{Name: want.Name}
		}
		d.permissions(want, have.Permissions)
	}
}

// permissions gives a role the wanted permissions and no others. etcd replaces the access to a span in place, but only
// if no other span begins at the same key.
func (d *diff) permissions(want Role, have []Permission) {
	for _, p := range want.Permissions {
		var here, near []Permission // at the same span; beginning at the same key
		for _, h := range have {
			if h.Key == p.Key {
				near = append(near, h)
			}
			if h.span() == p.span() {
				here = append(here, h)
			}
		}
		if len(here) == 1 && here[0] == p {
			continue
		}
		if len(here) > 0 && len(near) > 1 {
			d.step(Step{Kind: Revoke, Role: want.Name, Permission: here[0]})
		}
		d.step(Step{Kind: Grant, Role: want.Name, Permission: p})
	}
	var gone []span
	for _, h := range have {
		wanted := slices.ContainsFunc(want.Permissions, func(p Permission) bool { return p.span() == h.span() })
		if !wanted && !slices.Contains(gone, h.span()) { // etcd revokes all permissions at a span
			gone = append(gone, h.span())
			d.removals = append(d.removals, Step{Kind: Revoke, Role: want.Name, Permission: h})
		}
	}
}

// user makes one user match the file.
func (d *diff) user(want WantedUser) {
	have := d.have.user(want.Name)
	other := have != nil && have.NoPassword != want.NoPassword // such a user must be deleted and recreated
	switch {
	case have == nil && want.Unreadable != "":
		d.problem("user %s is not added: %s", want.Name, want.Unreadable)
		return
	case other && want.Name == Root:
		d.problem("user root: etcd cannot change a user with a password to one without, or back, and root is never deleted " +
			"here: set enabled: false, delete it with etcdctl, and set enabled: true again")
	case want.Unreadable != "":
		d.problem("the password of user %s is not looked at: %s", want.Name, want.Unreadable)
	case have == nil, other:
		if other {
			d.step(Step{Kind: DeleteUser, User: want.Name})
		}
		d.step(Step{Kind: AddUser, User: want.Name, NoPassword: want.NoPassword, Password: want.Password})
		have = &User{Name: want.Name}
	case !want.NoPassword && !d.matches(have.Hash, want.Password):
		d.step(Step{Kind: Password, User: want.Name, Password: want.Password})
	}
	for _, r := range want.Roles {
		if !slices.Contains(have.Roles, r) {
			d.step(Step{Kind: GiveRole, User: want.Name, Role: r})
		}
	}
	for _, r := range have.Roles {
		if !slices.Contains(want.Roles, r) && (want.Name != Root || r != Root) {
			d.removals = append(d.removals, Step{Kind: TakeRole, User: want.Name, Role: r})
		}
	}
}

// drop deletes the users and roles that the file does not name, if `others` says so.
func (d *diff) drop() {
	if d.want.Others != Delete {
		return
	}
	for _, u := range d.have.Users {
		if u.Name != Root && !slices.ContainsFunc(d.want.Users, func(w WantedUser) bool { return w.Name == u.Name }) {
			d.removals = append(d.removals, Step{Kind: DeleteUser, User: u.Name})
		}
	}
	for _, r := range d.have.Roles { // after the users that have them
		if r.Name != Root && !slices.ContainsFunc(d.want.Roles, func(w Role) bool { return w.Name == r.Name }) {
			d.removals = append(d.removals, Step{Kind: DeleteRole, Role: r.Name})
		}
	}
}

// rootless says why nobody might be able to use root once auth is enabled; "" if somebody can.
func (d *diff) rootless() string {
	i := slices.IndexFunc(d.want.Users, func(u WantedUser) bool { return u.Name == Root })
	if i < 0 || !slices.Contains(d.want.Users[i].Roles, Root) {
		return "the file has no user root with the role root"
	}
	root, have := d.want.Users[i], d.have.user(Root)
	switch {
	case root.Unreadable != "":
		return "the password of user root is not known: " + root.Unreadable
	case have != nil && have.NoPassword != root.NoPassword:
		return "user root is another one than in the file"
	}
	return ""
}
