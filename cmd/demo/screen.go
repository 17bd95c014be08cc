package demo

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

// screen redraws the status on a terminal. Without a terminal, it prints the status when it changes.
type screen struct {
	out io.Writer

	mu    sync.Mutex // guards the rest, and the output
	open  bool       // the terminal is being redrawn
	said  []string   // the events since then
	shown string     // without a terminal: what was printed last
}

// Control sequences of xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
const (
	otherScreen = "\x1b[?1049h" // saves the terminal's content, which firstScreen restores
	firstScreen = "\x1b[?1049l"
	home        = "\x1b[H"
	eraseLine   = "\x1b[2K"
	eraseRest   = "\x1b[J"
)

var (
	// changing matches what differs between two statuses although nothing has happened: ages, sizes and counts.
	changing = regexp.MustCompile(`\d\S*|\s+`)
	// controls matches control characters, which lines from logs may contain.
	controls = regexp.MustCompile(`[[:cntrl:]]`)
)

// show shows the status as `holdfast status` does, and the hints.
func (s *screen) show(status health.ClusterStatus, hints string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := "no node answers yet\n"
	if status.Asked != "" {
		text = show.Status(status, time.Now())
	}
	f, _ := s.out.(*os.File)
	if f == nil || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		if gist := changing.ReplaceAllString(text, " "); gist != s.shown {
			s.shown = gist
			fmt.Fprintf(s.out, "\n%s\n%s", text, hints)
		}
		return
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		columns, rows = 80, 24
	}
	if !s.open {
		s.open = true
		fmt.Fprint(s.out, otherScreen)
	}
	lines := slices.Concat(strings.Split(hints, "\n"), s.said[max(0, len(s.said)-3):], []string{""},
		strings.Split(text, "\n"))
	// One row stays free, so that the terminal does not scroll.
	shown := strings.Join(fit(lines, columns, rows-1), "\r\n"+eraseLine)
	fmt.Fprint(s.out, home+eraseLine+shown+"\r\n"+eraseRest)
}

// fit breaks the lines into rows of a screen, and cuts off what does not fit.
func fit(lines []string, columns, rows int) (fitting []string) {
	for _, l := range lines {
		row := []rune(l)
		for ; len(row) > columns; row = row[columns:] {
			fitting = append(fitting, string(row[:columns]))
		}
		fitting = append(fitting, string(row))
	}
	return fitting[:min(len(fitting), max(1, rows))]
}

// say prints an event. On a terminal, the last events are above the status, and close prints all of them.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := time.Now().Format(time.TimeOnly) + "  " + controls.ReplaceAllString(fmt.Sprintf(format, args...), " ")
	if s.open {
		s.said = append(s.said, text)
		return
	}
	fmt.Fprintln(s.out, text)
}

// close restores the terminal and prints the events.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.open = false
		fmt.Fprint(s.out, firstScreen+strings.Join(append(s.said, ""), "\n"))
	}
}
