package embedded

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/auth"
)

// Users reads and changes etcd's users and roles.
type Users struct{ *present }

// Auth returns etcd's users and roles as this member has applied them. It asks no other member. It returns an error if
// the member does not run, or if its database cannot be read at the moment.
func (u Users) Auth() (auth.State, error) {
	l, err := u.running()
	if err != nil {
		return auth.State{}, fmt.Errorf("read users and roles: %w", err)
	}
	var s auth.State
	if !l.glimpse(func() { s, err = l.auth() }) {
		return auth.State{}, fmt.Errorf("read users and roles: %w", errBusy)
	}
	return s, err
}

func (l *life) auth() (auth.State, error) {
	be := l.etcd.Server.Backend()
	read, tx := be.ReadTx(), schema.NewAuthBackend(l.lg, be).ReadTx() // the same transaction, with two sets of methods
	read.RLock()
	defer read.RUnlock()
	s := auth.State{Enabled: tx.UnsafeReadAuthEnabled(), Revision: tx.UnsafeReadAuthRevision()}
	users, err := namesIn(read, schema.AuthUsers)
	if err != nil {
		return auth.State{}, fmt.Errorf("read users: %w", err)
	}
	for _, name := range users {
		u := tx.UnsafeGetUser(name)
		s.Users = append(s.Users, auth.User{Name: name, NoPassword: u.Options != nil && u.Options.NoPassword,
			Hash: auth.Secret(u.Password), Roles: slices.Clone(u.Roles)})
	}
	roles, err := namesIn(read, schema.AuthRoles)
	if err != nil {
		return auth.State{}, fmt.Errorf("read roles: %w", err)
	}
	for _, name := range roles {
		role := auth.Role{Name: name}
		for _, p := range tx.UnsafeGetRole(name).KeyPermission {
			role.Permissions = append(role.Permissions,
				auth.Permission{Access: accesses[p.PermType], Key: string(p.Key), End: string(p.RangeEnd)})
		}
		s.Roles = append(s.Roles, role)
	}
	return s, nil
}

// namesIn returns the keys of a bucket. UnsafeGetAllRoles cannot be used: in etcd 3.7.3 it panics in a read
// transaction.
func namesIn(tx backend.UnsafeReader, bucket backend.Bucket) (names []string, err error) {
	err = tx.UnsafeForEach(bucket, func(k, _ []byte) error {
		names = append(names, string(k))
		return nil
	})
	slices.Sort(names)
	return names, err
}

// accesses maps etcd's permission types to ours. It goes by number, because the Go names differ between etcd 3.6 and
// 3.7.
var accesses = map[authpb.Permission_Type]auth.Access{
	authpb.Permission_Type(authpb.Permission_Type_value["READ"]):      auth.ReadOnly,
	authpb.Permission_Type(authpb.Permission_Type_value["WRITE"]):     auth.WriteOnly,
	authpb.Permission_Type(authpb.Permission_Type_value["READWRITE"]): auth.ReadWrite,
}

// ChangeAuth carries out one step through raft, as root, and returns when this member has applied it. Only the hash of
// a password leaves the process.
func (u Users) ChangeAuth(ctx context.Context, s auth.Step) error {
	l, err := u.running()
	if err != nil {
		return err
	}
	srv, p := l.etcd.Server, s.Permission
	ctx = srv.AuthStore().WithRoot(ctx)
	switch s.Kind {
	case auth.Enable:
		_, err = srv.AuthEnable(ctx, &pb.AuthEnableRequest{})
	case auth.Disable:
		_, err = srv.AuthDisable(ctx, &pb.AuthDisableRequest{})
	case auth.AddUser:
		_, err = srv.UserAdd(ctx, &pb.AuthUserAddRequest{Name: s.User, Password: string(s.Password),
			Options: &authpb.UserAddOptions{NoPassword: s.NoPassword}})
	case auth.Password:
		_, err = srv.UserChangePassword(ctx, &pb.AuthUserChangePasswordRequest{Name: s.User, Password: string(s.Password)})
	case auth.DeleteUser:
		_, err = srv.UserDelete(ctx, &pb.AuthUserDeleteRequest{Name: s.User})
	case auth.GiveRole:
		_, err = srv.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: s.User, Role: s.Role})
	case auth.TakeRole:
		_, err = srv.UserRevokeRole(ctx, &pb.AuthUserRevokeRoleRequest{Name: s.User, Role: s.Role})
	case auth.AddRole:
		_, err = srv.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: s.Role})
	case auth.DeleteRole:
		_, err = srv.RoleDelete(ctx, &pb.AuthRoleDeleteRequest{Role: s.Role})
	case auth.Revoke:
		_, err = srv.RoleRevokePermission(ctx,
			&pb.AuthRoleRevokePermissionRequest{Role: s.Role, Key: []byte(p.Key), RangeEnd: []byte(p.End)})
	case auth.Grant:
		perm := &authpb.Permission{Key: []byte(p.Key), RangeEnd: []byte(p.End)}
		for kind, access := range accesses {
			if access == p.Access {
				perm.PermType = kind
			}
		}
		_, err = srv.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: s.Role, Perm: perm})
	default:
		err = fmt.Errorf("no step of kind %q", s.Kind)
	}
	return err
}
