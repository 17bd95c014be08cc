package show

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON prints the answer of a command for programs.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// NothingChanged prints the result of a dry run.
func NothingChanged(w io.Writer, would string) error {
	_, err := fmt.Fprintf(w, "%s\nnothing was changed (--dry-run)\n", would)
	return err
}
