package authorities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/embedded/pki"
)

// signedAs begins the text that a signature of an edition covers, so that the signature is valid for nothing else.
const signedAs = "holdfast/edition/1\n"

// maxBefore is how many editions before the newest one are read to find one that this node can check.
const maxBefore = 64

// covered returns what the signatures of an edition cover: everything but themselves.
func (e Edition) covered() ([]byte, error) {
	e.Signatures = nil
	text, err := e.encode()
	return append([]byte(signedAs), text...), err
}

// sign signs an edition with every key of the peers' authority in the previous edition. So a node that has missed a
// rotation can still check the result with the authority that it knows.
func (e *Edition) sign(before keyed) error {
	text, err := e.covered()
	if err != nil {
		return err
	}
	e.Signatures = nil
	for _, k := range before.Keys {
		s, err := pki.Sign(k.Key, text)
		if err != nil {
			return fmt.Errorf("sign the authorities: %w", err)
		}
		e.Signatures = append(e.Signatures, s)
	}
	return nil
}

// signs reports whether the peers' authority of an edition that this node trusts has signed another edition.
func (e Edition) signs(next Edition) bool {
	text, err := next.covered()
	if err != nil {
		return false
	}
	for _, k := range e.Peers.Keys {
		by := e.Peers.of(k)
		if slices.ContainsFunc(next.Signatures, func(s []byte) bool {
			return pki.Check(by, text, s) == nil
		}) {
			return true
		}
	}
	return false
}

// same reports whether two editions have the same content.
func (e Edition) same(other Edition) bool {
	a, err := e.covered()
	b, err2 := other.covered()
	return err == nil && err2 == nil && string(a) == string(b)
}

// follows says why the newest edition in the store does not follow from this node's edition, nil if it does. It keeps
// anyone who can only write the store from making authorities.
func (a *Keeper) follows(ctx context.Context, have, newest Edition) error {
	if have.same(newest) {
		return nil
	}
	for e, n := newest, 0; ; n++ {
		if have.signs(e) {
			return nil
		}
		if e.Serial <= have.Serial+1 || n == maxBefore {
			return fmt.Errorf("%s is not signed by the peers' authority of edition %d, which this node follows: it was not "+
				"made by a node of this cluster, or by one whose holdfast is older. Find out who can write the store. If it "+
				"is right, stop the node, remove %s and start it; if it is not, remove it from the store",
				a.object(newest.Serial), have.Serial, a.cache)
		}
		before, err := a.get(ctx, a.object(e.Serial-1))
		switch {
		case err != nil:
			return fmt.Errorf("check who signed %s: read %s in the store: %w", a.object(e.Serial), a.object(e.Serial-1), err)
		case !before.signs(e):
			return fmt.Errorf("%s is not signed by the peers' authority of %s: %w", a.object(e.Serial), a.object(e.Serial-1),
				errors.New("one of them is not what a node of this cluster put there"))
		}
		e = *before
	}
}
