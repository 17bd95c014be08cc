package show

import (
	"fmt"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// Certificate is a certificate in a file of the configuration, or why the file has none.
type Certificate struct {
	Key         string    `json:"key"` // of the configuration
	File        string    `json:"file"`
	Subject     string    `json:"subject,omitempty"`
	Names       []string  `json:"names,omitempty"` // host names and IP addresses
	Issuer      string    `json:"issuer,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"` // as holdfast names authorities
	NotBefore   time.Time `json:"not_before,omitzero"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	Expired     bool      `json:"expired,omitempty"`
	Missing     bool      `json:"missing,omitempty"` // it is not issued yet
	Error       string    `json:"error,omitempty"`
}

// TLS is the answer of `holdfast tls show`.
type TLS struct {
	Mode         string                 `json:"mode"`
	Certificates []Certificate          `json:"certificates"`
	Rotation     *health.RotationStatus `json:"rotation,omitempty"` // nil if none is open
	Issued       []authorities.Client   `json:"issued,omitempty"`   // to clients, the last of each name
	Notes        []string               `json:"notes,omitempty"`    // what could not be found out, and why
	Asked        bool                   `json:"-"`                  // Rotation comes from a node
}

// Text returns the answer for people.
func (s TLS) Text(now time.Time) string {
	var b strings.Builder
	b.WriteString(certificatesText(s.Mode, s.Certificates, now))
	switch {
	case s.Rotation != nil:
		fmt.Fprintf(&b, "\n%s", s.Rotation.Text(now))
	case s.Mode == pki.ModeAuto && s.Asked:
		fmt.Fprintln(&b, "\nno rotation of the authorities is open")
	}
	b.WriteString(s.issuedText(now))
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func certificatesText(mode string, all []Certificate, now time.Time) string {
	if len(all) == 0 {
		return fmt.Sprintf("tls.mode %s: the configuration names no certificates\n", mode)
	}
	t := Table("KEY", "SUBJECT", "ISSUER", "NOT AFTER", "LEFT", "FILE")
	for _, s := range all {
		row := []any{s.Key, strings.TrimSpace(strings.Join(append([]string{s.Subject}, s.Names...), "\n")), s.Issuer,
			s.NotAfter.UTC().Format(time.RFC3339), health.Age(s.NotAfter, now), s.File}
		switch {
		case s.Error != "":
			row = []any{s.Key, "cannot be read: " + s.Error, "-", "-", "-", s.File}
		case s.Missing:
			row = []any{s.Key, "not issued yet: the node has not run", "-", "-", "-", s.File}
		case s.Expired:
			row[4] = "EXPIRED"
		}
		t.AppendRow(row)
	}
	return fmt.Sprintf("tls.mode %s\n\n%s\n", mode, t.Render())
}

// dropped reports whether the servers here no longer trust the authority of a client's certificate. In mode ca it may
// have another certificate by now, for the same key.
func (s TLS) dropped(r authorities.Client) bool {
	known, trusts := false, false
	for _, c := range s.Certificates {
		if c.Key == "etcd.trusted-ca-file" && c.Fingerprint != "" {
			known, trusts = true, trusts || c.Fingerprint == r.Authority
		}
	}
	return s.Mode == pki.ModeAuto && (r.Role == "" || r.Role == string(pki.Client)) && known && !trusts
}

// issuedText returns a table of the certificates issued by hand, or "" if there are none.
func (s TLS) issuedText(now time.Time) string {
	all := s.Issued
	if len(all) == 0 {
		return ""
	}
	t := Table("ISSUED TO", "FINGERPRINT", "AUTHORITY", "NOT AFTER", "LEFT")
	for _, r := range all {
		left := health.Age(r.NotAfter, now)
		switch {
		case !now.Before(r.NotAfter):
			left = "EXPIRED"
		case s.dropped(r):
			left = "REFUSED: its authority was dropped"
		}
		t.AppendRow([]any{r.Of(), r.Fingerprint, r.Authority, r.NotAfter.UTC().Format(time.RFC3339), left})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\ncertificates issued by hand, the last of each name\n\n%s\n", t.Render())
	for _, f := range health.JudgeIssued(authorities.IssuedTo(all), now) {
		fmt.Fprintf(&b, "%s: %s. %s\n", f.Severity, f, f.Do)
	}
	return b.String()
}
