package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"

	"holdfast/durable"
)

// errNoIdentity is the error of reading an encrypted backup, or a sealed text, without the key.
var errNoIdentity = errors.New("it is encrypted and no identity decrypts it: set snapshot.identity-file to the file " +
	"with the right one")

// ParseRecipients parses the recipients for encryption: age1…, age1pq1…, ssh-ed25519 and ssh-rsa public keys. The error
// says which one is wrong. age's plugins (age1name1…) are refused: they are separate programs, and a member's backup
// must not depend on one. All or none must be post-quantum (age1pq1…), as age demands.
func ParseRecipients(texts []string) ([]age.Recipient, error) {
	var recipients []age.Recipient
	quantum := 0
	for i, text := range texts {
		r, err := parseRecipient(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("number %d: %w", i+1, err)
		}
		if _, ok := r.(*age.HybridRecipient); ok {
			quantum++
		}
		recipients = append(recipients, r)
	}
	if quantum != 0 && quantum != len(texts) {
		return nil, fmt.Errorf("%d of %d are post-quantum (age1pq1…): all or none must be", quantum, len(texts))
	}
	return recipients, nil
}

func parseRecipient(text string) (age.Recipient, error) {
	var r age.Recipient
	var err error
	switch {
	case strings.Contains(text, "SECRET-KEY") || strings.Contains(text, "PRIVATE KEY"):
		// It must not be shown in the error.
		return nil, errors.New("this is a secret key: give the public one, as age-keygen -y prints it")
	case strings.HasPrefix(text, "age1pq1"):
		r, err = age.ParseHybridRecipient(text)
	case strings.HasPrefix(text, "ssh-"):
		r, err = agessh.ParseRecipient(text)
	case strings.HasPrefix(text, "age1") && strings.Count(text, "1") > 1 && strings.LastIndex(text, "1") > 4:
		return nil, fmt.Errorf("must be age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …; plugins are not supported, got %q",
			text)
	default:
		r, err = age.ParseX25519Recipient(text)
	}
	if err != nil {
		return nil, fmt.Errorf("must be age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …: %w", err)
	}
	return r, nil
}

// ReadIdentities reads the file with the identities for decryption: one of age-keygen, or an SSH private key without a
// passphrase. A file that others than its owner may read is refused, because it gives access to every secret in every
// backup.
func ReadIdentities(path string) ([]age.Identity, error) {
	ids, err := readIdentities(path)
	if err != nil {
		return nil, fmt.Errorf("snapshot.identity-file: %w", err)
	}
	return ids, nil
}

func readIdentities(path string) ([]age.Identity, error) {
	text, err := durable.ReadSecret(path, maxSmall)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")) {
		id, err := agessh.ParseIdentity(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return []age.Identity{id}, nil
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return ids, nil
}

// keyring keeps the key of one file that is encrypted through it, so that Save can read back what it wrote. The file is
// encrypted only to the configured recipients, and the key is gone when Save returns.
type keyring struct {
	age.Recipient
	fileKey []byte
}

// WrapWithLabels implements age.RecipientWithLabels, with which age prevents mixing post-quantum recipients with
// others.
func (k *keyring) WrapWithLabels(fileKey []byte) (stanzas []*age.Stanza, labels []string, err error) {
	k.fileKey = bytes.Clone(fileKey)
	if r, ok := k.Recipient.(age.RecipientWithLabels); ok {
		return r.WrapWithLabels(fileKey)
	}
	stanzas, err = k.Wrap(fileKey)
	return stanzas, nil, err
}

// encrypt returns a writer that encrypts to the recipients, and an identity that decrypts this one stream.
func encrypt(w io.Writer, recipients []age.Recipient) (io.WriteCloser, age.Identity, error) {
	kept := &keyring{Recipient: recipients[0]}
	all := append([]age.Recipient{kept}, recipients[1:]...)
	sealed, err := age.Encrypt(w, all...)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt: %w", err)
	}
	return sealed, age.NewInjectedFileKeyIdentity(kept.fileKey), nil
}

// maxHeader bounds age's header, which age keeps in memory. A recipient takes about 200 bytes, a post-quantum one 1700.
const maxHeader = 1 << 20

// decrypt returns the content of an age stream. The error is errNoIdentity if no identity fits.
func decrypt(r io.Reader, identities []age.Identity) (io.Reader, error) {
	if len(identities) == 0 {
		return nil, errNoIdentity
	}
	bounded := &io.LimitedReader{R: r, N: maxHeader}
	plain, err := age.Decrypt(bounded, identities...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return nil, errNoIdentity
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	bounded.N = math.MaxInt64
	return plain, nil
}

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
