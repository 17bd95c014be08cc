package auth

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/crypto/bcrypt"

	"holdfast/durable"
)

// maxPassword is bcrypt's own bound, in bytes; etcd refuses longer passwords.
const maxPassword = 72

// ReadPasswords reads each user's password file, and stores with the user why one cannot be read.
func (w Wanted) ReadPasswords() {
	for i := range w.Users {
		u := &w.Users[i]
		if u.NoPassword {
			continue
		}
		var err error
		if u.Password, err = readPassword(u.PasswordFile); err != nil {
			u.Unreadable = err.Error()
		}
	}
}

// readPassword reads one password, without the line break at its end. No error quotes the password.
func readPassword(path string) (Secret, error) {
	data, err := durable.ReadSecret(path, maxFile)
	if err != nil {
		return "", err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if n := len(data); n == 0 || n > maxPassword || bytes.ContainsAny(data, "\r\n\x00") {
		return "", fmt.Errorf("%s: must hold one line of 1–%d bytes", path, maxPassword)
	}
	return Secret(data), nil
}

// fingerprint changes when the file, or a file that it names, changes. It is useless to anyone who sees it, because it
// begins with a salt of this process.
func fingerprint(salt []byte, path string, w Wanted, err error) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%x %s %v %q\n", salt, path, err, fmt.Sprint(w.Enabled, w.Others, w.Roles))
	for _, u := range w.Users {
		fmt.Fprintf(h, "%q %t %q %q %q\n", u.Name, u.NoPassword, string(u.Password), u.Unreadable, u.Roles)
	}
	h.Sum(sum[:0])
	return sum
}

// matcher compares passwords with hashes, and remembers which ones matched, because bcrypt by design takes a tenth of a
// second of processor time. It remembers only sums that begin with a salt of this process.
type matcher struct {
	salt  []byte
	known map[[sha256.Size]byte]bool
}

// match is a [Matcher].
func (m *matcher) match(hash, password Secret) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %q %q", m.salt, string(hash), string(password)))
	if m.known[sum] {
		return true
	}
	err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	if err == nil {
		m.known[sum] = true
	}
	return err == nil
}

// errNone is returned if auth.file is not set.
var errNone = errors.New("auth.file is not set, so holdfast leaves etcd's users and roles alone: name a file " +
	"(docs/auth.md), the same on all nodes")
