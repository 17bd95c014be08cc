package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Seal encrypts a small text to opt.Recipients in age's ASCII format, so that `age -d` can read it too. Without
// recipients it returns the text unchanged.
func Seal(text []byte, opt Options) ([]byte, error) {
	if len(opt.Recipients) == 0 {
		return text, nil
	}
	var sealed bytes.Buffer
	outer := armor.NewWriter(&sealed)
	inner, err := age.Encrypt(outer, opt.Recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt to snapshot.recipients: %w", err)
	}
	_, err = inner.Write(text)
	err = errors.Join(err, inner.Close(), outer.Close())
	return sealed.Bytes(), err
}

// Sealed reports whether a text is encrypted.
func Sealed(text []byte) bool { return bytes.HasPrefix(text, []byte(armor.Header)) }

// Unseal is the inverse of Seal, with opt.Identities. A text of more than limit bytes is an error.
func Unseal(text []byte, limit int64, opt Options) ([]byte, error) {
	if !Sealed(text) {
		return text, nil
	}
	plain, err := decrypt(armor.NewReader(bytes.NewReader(text)), opt.Identities)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(plain, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	if int64(len(all)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return all, nil
}
