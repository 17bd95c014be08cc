package show

import (
	"encoding/json"
	"io"
)

// JSON prints the answer of a command for programs.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// DryRun returns the text of the result of a dry run.
func DryRun(would string) string { return would + "\nnothing was changed (--dry-run)\n" }

// NothingChanged prints the result of a dry run.
func NothingChanged(w io.Writer, would string) error {
	_, err := io.WriteString(w, DryRun(would))
	return err
}
