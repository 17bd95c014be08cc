package show

import (
	"fmt"
	"strings"

	"holdfast/embedded/auth"
)

// Auth returns a text with the steps that change etcd's users and roles. The text of says what the steps are, such as
// "done".
func Auth(r auth.Report, of string) string {
	var b strings.Builder
	if len(r.Steps) > 0 {
		t := Table("step", of)
		for i, s := range r.Steps {
			t.AppendRow([]any{i + 1, s})
		}
		fmt.Fprintln(&b, t.Render())
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	if r.Obstacle != "" {
		fmt.Fprintf(&b, "not now: %s\n", r.Obstacle)
	}
	if len(r.Steps)+len(r.Problems) == 0 {
		fmt.Fprintf(&b, "nothing to do: etcd is as the file says, auth is %s\n",
			map[bool]string{true: "enabled", false: "disabled"}[r.Enabled])
	}
	return b.String()
}
