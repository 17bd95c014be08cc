package pki

import (
	"context"
	"errors"
	"fmt"
)

// Source gives the authorities as they are now. It is asked again and again; an error leaves those that are known.
type Source interface {
	Authorities(ctx context.Context) (Authorities, error)
}

// FileSource reads the authorities from the files of a configuration, anew each time.
type FileSource Config

// Authorities reads the four files. Without a key file an authority only trusts, and nothing can be issued by it.
func (s FileSource) Authorities(context.Context) (Authorities, error) {
	clients, err := loadKeyed("client", s.ClientCAFile, s.ClientCAKeyFile)
	peers, err2 := loadKeyed("peer", s.PeerCAFile, s.PeerCAKeyFile)
	return Authorities{Clients: clients, Peers: peers}, errors.Join(err, err2)
}

// loadKeyed is LoadAuthority with the keys of the configuration in its errors.
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
