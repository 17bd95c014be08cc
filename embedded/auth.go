package embedded

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/auth"
)

// Auth returns etcd's users and roles as far as this member has applied them. It asks nobody, and is an error while the
// member does not run or its database is defragmented.
func (m *Member) Auth() (auth.State, error) {
	l, err := m.running()
	if err != nil {
		return auth.State{}, fmt.Errorf("read users and roles: %w", err)
	}
	if !l.backend.TryRLock() {
		return auth.State{}, fmt.Errorf("read users and roles: %w", errDefragmenting)
	}
	defer l.backend.RUnlock()
	tx := schema.NewAuthBackend(l.lg, l.etcd.Server.Backend()).ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	s := auth.State{Enabled: tx.UnsafeReadAuthEnabled(), Revision: tx.UnsafeReadAuthRevision()}
	for _, u := range tx.UnsafeGetAllUsers() {
		s.Users = append(s.Users, auth.User{Name: string(u.Name), NoPassword: u.Options != nil && u.Options.NoPassword,
			Hash: auth.Secret(u.Password), Roles: slices.Clone(u.Roles)})
	}
	for _, r := range tx.UnsafeGetAllRoles() {
		role := auth.Role{Name: string(r.Name)}
		for _, p := range r.KeyPermission {
			role.Permissions = append(role.Permissions, auth.Permission{Access: accesses[p.PermType], Key: string(p.Key), End: string(p.RangeEnd)})
		}
		s.Roles = append(s.Roles, role)
	}
	return s, nil
}

var accesses = map[authpb.Permission_Type]auth.Access{
	authpb.Permission_READ: auth.ReadOnly, authpb.Permission_WRITE: auth.WriteOnly, authpb.Permission_READWRITE: auth.ReadWrite,
}

// ChangeAuth makes one step, as root, through raft, and returns when this member has applied it. No password leaves the
// process, only its hash does.
func (m *Member) ChangeAuth(ctx context.Context, s auth.Step) error {
	l, err := m.running()
	if err != nil {
		return err
	}
	srv := l.etcd.Server
	ctx = srv.AuthStore().WithRoot(ctx)
	switch s.Kind {
	case auth.Enable:
		_, err = srv.AuthEnable(ctx, &pb.AuthEnableRequest{})
	case auth.Disable:
		_, err = srv.AuthDisable(ctx, &pb.AuthDisableRequest{})
	case auth.AddUser, auth.Password, auth.DeleteUser, auth.GiveRole, auth.TakeRole:
		err = changeUser(ctx, srv, s)
	default:
		err = changeRole(ctx, srv, s)
	}
	return err
}

func changeUser(ctx context.Context, srv *etcdserver.EtcdServer, s auth.Step) (err error) {
	switch s.Kind {
	case auth.AddUser:
		_, err = srv.UserAdd(ctx, &pb.AuthUserAddRequest{Name: s.User, Password: string(s.Password), Options: &authpb.UserAddOptions{NoPassword: s.NoPassword}})
	case auth.Password:
		_, err = srv.UserChangePassword(ctx, &pb.AuthUserChangePasswordRequest{Name: s.User, Password: string(s.Password)})
	case auth.DeleteUser:
		_, err = srv.UserDelete(ctx, &pb.AuthUserDeleteRequest{Name: s.User})
	case auth.GiveRole:
		_, err = srv.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: s.User, Role: s.Role})
	case auth.TakeRole:
		_, err = srv.UserRevokeRole(ctx, &pb.AuthUserRevokeRoleRequest{Name: s.User, Role: s.Role})
	}
	return err
}

func changeRole(ctx context.Context, srv *etcdserver.EtcdServer, s auth.Step) (err error) {
	p := s.Permission
	switch s.Kind {
	case auth.AddRole:
		_, err = srv.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: s.Role})
	case auth.DeleteRole:
		_, err = srv.RoleDelete(ctx, &pb.AuthRoleDeleteRequest{Role: s.Role})
	case auth.Revoke:
		_, err = srv.RoleRevokePermission(ctx, &pb.AuthRoleRevokePermissionRequest{Role: s.Role, Key: []byte(p.Key), RangeEnd: []byte(p.End)})
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
