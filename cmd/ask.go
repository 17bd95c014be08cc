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

// terminalOf reads from the terminal that a command was given on. It is nil if there is none: silence is no yes.
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
		line, _ := lines.ReadString('\n') // what cannot be read is no yes
		read <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case text := <-read:
		return text, nil
	}
}

// confirm asks on the terminal that the command was given on. It returns an error unless the answer is yes.
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

// confirmUnless is confirm, unless the operator has said --yes.
func confirmUnless(yes bool, c *cobra.Command, question string) error {
	if yes {
		return nil
	}
	return confirm(c.Context(), c, question)
}

// askYes asks, and returns whether the next line is a yes.
func askYes(ctx context.Context, out io.Writer, lines *bufio.Reader, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	text, err := answer(ctx, lines)
	if err != nil {
		return false, errors.New("interrupted; what was not confirmed was not changed")
	}
	text = strings.ToLower(text)
	return text == "y" || text == "yes", nil
}

// operator is who asks, for those who read it later.
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
