package metrics

import (
	"fmt"
	"net/http"
	"strings"
)

// Check is one line of /livez and /readyz.
type Check struct {
	Name    string // short and stable, e.g. "etcd"
	Err     error  // nil if it passed
	Detail  string // shown if it passed
	Warning string // shown instead of Detail if it passed, but someone should look at it
}

// String returns "[+]name ok", "[+]name ok: detail", "[!]name warning: text" or "[-]name failed: reason", always on one
// line, so that grep can be used.
func (c Check) String() string {
	line := fmt.Sprintf("[+]%s ok: %s", c.Name, c.Detail)
	switch {
	case c.Err != nil:
		line = fmt.Sprintf("[-]%s failed: %v", c.Name, c.Err)
	case c.Warning != "":
		line = fmt.Sprintf("[!]%s warning: %s", c.Name, c.Warning)
	case c.Detail == "":
		line = fmt.Sprintf("[+]%s ok", c.Name)
	}
	return strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// writeChecks answers 200 if every check passed, otherwise 503. The lines are shown on request, and if a check failed:
// a failed probe in a log must show the reason.
func writeChecks(w http.ResponseWriter, checks []Check, verbose bool) {
	status := http.StatusOK
	var lines strings.Builder
	for _, c := range checks {
		if c.Err != nil {
			status = http.StatusServiceUnavailable
		}
		lines.WriteString(c.String() + "\n")
	}
	body := lines.String()
	if status == http.StatusOK && (!verbose || body == "") {
		body = "ok\n"
	}
	write(w, "text/plain; charset=utf-8", status, []byte(body))
}
