package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// same replaces bcrypt in the model.
func same(hash, password Secret) bool { return hash == "hash of "+password }

// etcd is a model of etcd's auth store, with its refusals and its oddities.
type etcd struct{ State }

func (e *etcd) do(s Step) error {
	e.Revision++
	switch s.Kind {
	case Enable:
		if u := e.user(Root); u == nil || !slices.Contains(u.Roles, Root) {
			return errors.New("no root")
		}
		e.Enabled = true
	case Disable:
		e.Enabled = false
	case AddRole, DeleteRole, Grant, Revoke:
		return e.doRole(s)
	default:
		return e.doUser(s)
	}
	return nil
}

func (e *etcd) doRole(s Step) error {
	r := e.role(s.Role)
	if (r == nil) != (s.Kind == AddRole) {
		return fmt.Errorf("role %s: is there: %t", s.Role, r != nil)
	}
	switch s.Kind {
	case AddRole:
		e.Roles = append(e.Roles, Role{Name: s.Role})
	case DeleteRole:
		if e.Enabled && s.Role == Root {
			return errors.New("role root")
		}
		e.Roles = slices.DeleteFunc(e.Roles, func(r Role) bool { return r.Name == s.Role })
		for i := range e.Users {
			e.Users[i].Roles = slices.DeleteFunc(e.Users[i].Roles, func(r string) bool { return r == s.Role })
		}
	case Grant: // in place only if it is the first with its key
		i := slices.IndexFunc(r.Permissions, func(p Permission) bool { return p.Key >= s.Permission.Key })
		if i >= 0 && r.Permissions[i].span() == s.Permission.span() {
			r.Permissions[i] = s.Permission
			return nil
		}
		r.Permissions = append(r.Permissions, s.Permission)
		slices.SortStableFunc(r.Permissions, func(a, b Permission) int { return strings.Compare(a.Key, b.Key) })
	case Revoke:
		n := len(r.Permissions)
		r.Permissions = slices.DeleteFunc(r.Permissions, func(p Permission) bool { return p.span() == s.Permission.span() })
		if len(r.Permissions) == n {
			return errors.New("not granted")
		}
	}
	return nil
}

func (e *etcd) doUser(s Step) error {
	u := e.user(s.User)
	if (u == nil) != (s.Kind == AddUser) {
		return fmt.Errorf("user %s: is there: %t", s.User, u != nil)
	}
	switch s.Kind {
	case AddUser:
		u := User{Name: s.User, NoPassword: s.NoPassword}
		if !s.NoPassword {
			u.Hash = "hash of " + s.Password
		}
		e.Users = append(e.Users, u)
	case DeleteUser:
		if s.User == Root { // stricter than etcd, which allows it while auth is disabled
			return errors.New("user root")
		}
		e.Users = slices.DeleteFunc(e.Users, func(u User) bool { return u.Name == s.User })
	case Password:
		if u.NoPassword {
			return errors.New("it has no password")
		}
		u.Hash = "hash of " + s.Password
	case GiveRole:
		if s.Role != Root && e.role(s.Role) == nil || slices.Contains(u.Roles, s.Role) {
			return fmt.Errorf("role %s", s.Role)
		}
		u.Roles = append(u.Roles, s.Role)
		slices.Sort(u.Roles)
	case TakeRole:
		if s.User == Root && s.Role == Root {
			return errors.New("root's role root")
		}
		n := len(u.Roles)
		if u.Roles = slices.DeleteFunc(u.Roles, func(r string) bool { return r == s.Role }); len(u.Roles) == n {
			return errors.New("not granted")
		}
	}
	return nil
}

func (e *etcd) clone() *etcd {
	c := *e
	c.Users, c.Roles = slices.Clone(e.Users), slices.Clone(e.Roles)
	for i := range c.Users {
		c.Users[i].Roles = slices.Clone(c.Users[i].Roles)
	}
	for i := range c.Roles {
		c.Roles[i].Permissions = slices.Clone(c.Roles[i].Permissions)
	}
	return &c
}

var (
	names   = rapid.SampledFrom([]string{"ann", "bob", "cat"})
	roles   = rapid.SampledFrom([]string{"reader", "writer", "app"})
	accessG = rapid.SampledFrom([]Access{ReadOnly, WriteOnly, ReadWrite})
	spanG   = rapid.SampledFrom([]span{{"a", ""}, {"a", "b"}, {"a", "\x00"}, {"b", ""}, all})
)

func drawRoles(t *rapid.T) []Role {
	var out []Role
	for _, name := range rapid.SliceOfNDistinct(roles, 0, 3, rapid.ID).Draw(t, "roles") {
		r := Role{Name: name}
		for _, s := range rapid.SliceOfNDistinct(spanG, 0, 4, rapid.ID).Draw(t, "spans") {
			r.Permissions = append(r.Permissions, Permission{accessG.Draw(t, "access"), s.key, s.end})
		}
		out = append(out, r)
	}
	return out
}

// drawWanted draws the content of a file.
func drawWanted(t *rapid.T) Wanted {
	w := Wanted{Enabled: rapid.Bool().Draw(t, "enabled"), Others: rapid.SampledFrom([]Others{Keep, Delete}).Draw(t, "others"), Roles: drawRoles(t)}
	users := rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "users")
	if w.Enabled || rapid.Bool().Draw(t, "root") {
		users = append(users, Root)
	}
	for _, name := range users {
		u := WantedUser{Name: name, NoPassword: rapid.IntRange(0, 3).Draw(t, "without") == 0}
		switch {
		case u.NoPassword:
		case rapid.IntRange(0, 5).Draw(t, "unreadable") == 0:
			u.Unreadable = "permission denied"
		default:
			u.Password = Secret(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "password"))
		}
		if name == Root && (w.Enabled || rapid.Bool().Draw(t, "rooted")) {
			u.Roles = append(u.Roles, Root)
		}
		for _, r := range w.Roles {
			if rapid.Bool().Draw(t, "has") {
				u.Roles = append(u.Roles, r.Name)
			}
		}
		slices.Sort(u.Roles)
		w.Users = append(w.Users, u)
	}
	return w
}

// drawEtcd draws an etcd by arbitrary changes that etcd allows, as if made with etcdctl.
func drawEtcd(t *rapid.T) *etcd {
	e := &etcd{}
	for _, s := range []Step{{Kind: AddRole, Role: "reader"}, {Kind: AddRole, Role: "app"}, {Kind: AddUser, User: "ann", Password: "two"},
		{Kind: AddUser, User: Root, Password: "one"}, {Kind: GiveRole, User: Root, Role: Root}, {Kind: Enable}} {
		if rapid.IntRange(0, 7).Draw(t, "usual") > 0 {
			_ = e.do(s) // it may fail, because something that it needs is missing
		}
	}
	for range rapid.IntRange(0, 25).Draw(t, "changes") {
		s := Step{
			Kind:       rapid.SampledFrom([]Kind{Disable, AddRole, Grant, Grant, Grant, Grant, Revoke, DeleteRole, AddUser, Password, GiveRole, TakeRole, DeleteUser, Enable}).Draw(t, "kind"),
			User:       rapid.OneOf(names, rapid.Just(Root)).Draw(t, "user"),
			Role:       rapid.OneOf(roles, rapid.Just(Root)).Draw(t, "role"),
			NoPassword: rapid.Bool().Draw(t, "without"), Password: "one",
		}
		p := spanG.Draw(t, "span")
		s.Permission = Permission{accessG.Draw(t, "access"), p.key, p.end}
		if next := e.clone(); next.do(s) == nil {
			*e = *next
		}
	}
	return e
}

// Whatever etcd has and whatever the file says, each step is possible, and no state in between locks anyone out. The
// result is what is wanted, except for what the problems name, and then there is nothing left to do.
func TestDiff(t *testing.T) {
	for range 20 { // the odd cases are rare, and a check is cheap
		rapid.Check(t, checkDiff)
	}
}

func checkDiff(t *rapid.T) {
	e, w := drawEtcd(t), drawWanted(t)
	began := e.clone()
	steps, problems := Diff(w, began.State, same)
	open := false
	for i, s := range steps {
		if err := e.do(s); err != nil {
			t.Fatalf("step %d of %v: %v", i, steps, err)
		}
		if u := e.user(Root); e.Enabled && (u == nil || !slices.Contains(u.Roles, Root)) {
			t.Fatalf("after step %d of %v nobody can use root", i, steps)
		}
		if e.Enabled && open {
			t.Fatalf("auth is enabled before step %d of %v", i, steps)
		}
		open = e.Enabled && !began.Enabled
	}
	again, still := Diff(w, e.State, same)
	if len(again) > 0 {
		t.Fatalf("after %v there is still %v", steps, again)
	}
	if len(still) != len(problems) && len(problems) == 0 {
		t.Fatalf("problems afterwards: %q", still)
	}
	if len(problems) == 0 {
		reached(t, w, e.State, began.State)
	}
}

// reached compares without Diff, so that an omission in Diff is noticed here.
func reached(t *rapid.T, w Wanted, now, before State) {
	if now.Enabled != w.Enabled {
		t.Fatalf("enabled: got %t", now.Enabled)
	}
	for _, u := range w.Users {
		got := now.user(u.Name)
		if had := before.user(Root); u.Name == Root && had != nil && slices.Contains(had.Roles, Root) && !slices.Contains(u.Roles, Root) {
			u.Roles = slices.Sorted(slices.Values(append(u.Roles, Root))) // never removed
		}
		want := User{Name: u.Name, NoPassword: u.NoPassword, Roles: u.Roles}
		if !u.NoPassword {
			want.Hash = "hash of " + u.Password
		}
		if got == nil || got.NoPassword != want.NoPassword || string(got.Hash) != string(want.Hash) || !slices.Equal(got.Roles, want.Roles) {
			t.Fatalf("user %s: got %+v, want %+v", u.Name, got, want)
		}
	}
	for _, r := range w.Roles {
		byText := func(a, b Permission) int { return strings.Compare(a.String(), b.String()) }
		got, want := slices.Clone(now.role(r.Name).Permissions), slices.Clone(r.Permissions)
		slices.SortFunc(got, byText)
		if slices.SortFunc(want, byText); !slices.Equal(got, want) {
			t.Fatalf("role %s: got %v, want %v", r.Name, got, want)
		}
	}
	for _, u := range before.Users {
		named := slices.ContainsFunc(w.Users, func(o WantedUser) bool { return o.Name == u.Name })
		if kept := now.user(u.Name) != nil; !named && kept != (w.Others == Keep || u.Name == Root) {
			t.Fatalf("user %s, which the file does not name: kept is %t", u.Name, kept)
		}
	}
	for _, r := range before.Roles {
		named := slices.ContainsFunc(w.Roles, func(o Role) bool { return o.Name == r.Name })
		if kept := now.role(r.Name) != nil; !named && kept != (w.Others == Keep || r.Name == Root) {
			t.Fatalf("role %s, which the file does not name: kept is %t", r.Name, kept)
		}
	}
}

// A user whose password cannot be read holds up nothing else, except that auth is not enabled without root's.
func TestUnreadable(t *testing.T) {
	w := Wanted{Enabled: true, Others: Keep, Roles: []Role{{Name: "app"}}, Users: []WantedUser{
		{Name: Root, Password: "r", Roles: []string{Root}},
		{Name: "ann", Unreadable: "gone", Roles: []string{"app"}},
		{Name: "bob", Password: "b", Roles: []string{"app"}},
	}}
	steps, problems := Diff(w, State{}, same)
	got := fmt.Sprint(steps)
	if strings.Contains(got, "ann") || !strings.Contains(got, "give user bob the role app") || !strings.Contains(got, "enable auth") {
		t.Errorf("steps: %s", got)
	}
	if len(problems) != 1 || problems[0] != "user ann is not added: gone" {
		t.Errorf("problems: %q", problems)
	}
	w.Users[0] = WantedUser{Name: Root, Unreadable: "gone", Roles: []string{Root}}
	have := State{Users: []User{{Name: Root, Hash: "x", Roles: []string{Root}}}}
	steps, problems = Diff(w, have, same)
	if got := fmt.Sprint(steps); strings.Contains(got, "enable") || !strings.Contains(got, "add user bob") {
		t.Errorf("steps: %s", got)
	}
	if !slices.Contains(problems, "auth is not enabled: the password of user root is not known: gone") {
		t.Errorf("problems: %q", problems)
	}
}

// No format shows a secret.
func TestSecret(t *testing.T) {
	s := Step{Kind: AddUser, User: "ann", Password: "hunter2"}
	w := Wanted{Users: []WantedUser{{Name: "ann", Password: "hunter2"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(format, s) + fmt.Sprintf(format, w) + fmt.Sprintf(format, s.Password); strings.Contains(got, "hunter2") || strings.Contains(got, "68756e7465") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
