package pki

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Source returns the current authorities. It is asked repeatedly; after an error the known ones stay.
type Source interface {
	Authorities(ctx context.Context) (Authorities, error)
}

// FileSource reads the authorities from the files of a configuration each time.
type FileSource Config

// Authorities reads the four files. Without its key file, an authority only trusts, and cannot issue anything.
func (s FileSource) Authorities(context.Context) (Authorities, error) {
	clients, err := loadKeyed("client", s.ClientCAFile, s.ClientCAKeyFile)
	peers, err2 := loadKeyed("peer", s.PeerCAFile, s.PeerCAKeyFile)
	if err = errors.Join(err, err2); err != nil {
		return Authorities{}, err
	}
	for _, c := range clients.Bundle {
		if slices.ContainsFunc(peers.Bundle, c.Equal) {
			return Authorities{}, fmt.Errorf("tls.client-ca-file and tls.peer-ca-file: both hold %s (%s), so that any client "+
				"could be a member: they must be different authorities; `holdfast tls init` makes two",
				Fingerprint(c), c.Subject)
		}
	}
	return Authorities{Clients: clients, Peers: peers}, nil
}

// loadKeyed is LoadAuthority with the configuration keys in its errors.
func loadKeyed(whose, certFile, keyFile string) (Authority, error) {
	key := "tls." + whose + "-ca-file"
	if certFile == "" {
		return Authority{}, fmt.Errorf("%s is not set: give the certificate of the %ss' authority, or tls.ca-dir", key, whose)
	}
	a, err := LoadAuthority(certFile, keyFile)
	if err != nil {
		return Authority{}, fmt.Errorf("%s, tls.%s-ca-key-file: %w", key, whose, err)
	}
	return a, nil
}
