package config

import (
	"fmt"

	"holdfast/embedded/auth"
)

// Auth is the `auth:` section: etcd's users and roles.
type Auth struct {
	// File lists the users and roles that etcd must have. If it is empty, they are left alone.
	File string `mapstructure:"file"`
}

// authDoubts returns warnings about auth.file. A wrong file is no error, because the member can serve without it.
func authDoubts(c Config) []string {
	if c.Auth.File == "" {
		return nil
	}
	w, err := auth.Read(c.Auth.File)
	if err != nil {
		return []string{fmt.Sprintf("auth.file: etcd's users and roles will be left alone: %v", err)}
	}
	w.ReadPasswords()
	var all []string
	for _, u := range w.Users {
		switch {
		case u.Unreadable != "":
			all = append(all, fmt.Sprintf("auth.file: the password of user %s: %s", u.Name, u.Unreadable))
		case u.NoPassword && !c.Etcd.ClientCertAuth && c.Etcd.TrustedCAFile == "":
			all = append(all,
				fmt.Sprintf("auth.file: user %s has no password, and clients' certificates are not asked for: nobody can be that "+
					"user", u.Name))
		}
	}
	return all
}
