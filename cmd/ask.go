package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// terminalOf returns a reader of the terminal on which the command runs, or nil if standard input is no terminal.
func terminalOf(c *cobra.Command) *bufio.Reader {
	in, ok := c.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return bufio.NewReader(in)
}

// answer returns the next line, unless ctx ends first.
func answer(ctx context.Context, lines *bufio.Reader) (string, error) {
	read := make(chan string, 1)
	go func() {
		line, _ := lines.ReadString('\n') // an error leaves a line that is not yes
		read <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case text := <-read:
		return text, nil
	}
}

// confirm asks on the terminal, and returns an error unless the answer is yes.
func confirm(ctx context.Context, c *cobra.Command, question string) error {
	lines := terminalOf(c)
	if lines == nil {
		return errors.New("there is no terminal to ask on: say --yes if this is what you want; nothing was changed")
	}
	fmt.Fprintf(c.ErrOrStderr(), "\n%s Type yes: ", question)
	switch text, err := answer(ctx, lines); {
	case err != nil:
		return errors.New("interrupted; nothing was changed")
	case text != "yes":
		return fmt.Errorf("%q is not yes; nothing was changed", text)
	}
	return nil
}

// confirmUnless asks like confirm, unless yes (the flag --yes) is set.
func confirmUnless(yes bool, c *cobra.Command, question string) error {
	if yes {
		return nil
	}
	return confirm(c.Context(), c, question)
}

// askYes asks, and reports whether the next line is y or yes.
func askYes(ctx context.Context, out io.Writer, lines *bufio.Reader, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	text, err := answer(ctx, lines)
	if err != nil {
		return false, errors.New("interrupted; what was not confirmed was not changed")
	}
	text = strings.ToLower(text)
	return text == "y" || text == "yes", nil
}

// operator returns USER@HOST of the caller, for the history and the records in the store.
func operator() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	return name + "@" + host
}
