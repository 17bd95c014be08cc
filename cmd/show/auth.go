package show

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"holdfast/embedded/auth"
)

// Auth prints the steps that change etcd's users and roles. The text of says what the steps are, such as "done".
func Auth(w io.Writer, r auth.Report, of string) error {
	if len(r.Steps) > 0 {
		t := Table("step", of)
		for i, s := range r.Steps {
			t.AppendRow(table.Row{i + 1, s})
		}
		fmt.Fprintln(w, t.Render())
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
	if r.Obstacle != "" {
		fmt.Fprintf(w, "not now: %s\n", r.Obstacle)
	}
	if len(r.Steps)+len(r.Problems) == 0 {
		_, err := fmt.Fprintf(w, "nothing to do: etcd is as the file says, auth is %s\n",
			map[bool]string{true: "enabled", false: "disabled"}[r.Enabled])
		return err
	}
	return nil
}
