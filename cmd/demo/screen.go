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

// screen redraws a terminal in place. Elsewhere it appends what has changed.
type screen struct {
	out io.Writer

	mu    sync.Mutex // guards the rest, and the output
	open  bool       // a terminal is redrawn
	said  []string   // what has happened meanwhile
	shown string     // without a terminal: what was printed last
}

// The sequences are those of xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
const (
	otherScreen = "\x1b[?1049h" // what was on the terminal before comes back at the end
	firstScreen = "\x1b[?1049l"
	home        = "\x1b[H"
	eraseLine   = "\x1b[2K"
	eraseRest   = "\x1b[J"
)

var (
	// changing is what differs in two statuses between which nothing has happened: ages, sizes, counts.
	changing = regexp.MustCompile(`\d\S*|\s+`)
	// controls is what would change the terminal: some of what is said comes from logs.
	controls = regexp.MustCompile(`[[:cntrl:]]`)
)

// show shows a status as `holdfast status` does.
func (s *screen) show(status health.ClusterStatus, hints string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := &strings.Builder{}
	if status.Asked == "" {
		text.WriteString("no node answers yet\n")
	} else {
		_ = show.Status(text, status, time.Now()) // a builder takes everything
	}
	f, _ := s.out.(*os.File)
	if f == nil || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		if gist := changing.ReplaceAllString(text.String(), " "); gist != s.shown {
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
		strings.Split(text.String(), "\n"))
	// one row stays free, for the last one not to scroll
	shown := strings.Join(fit(lines, columns, rows-1), "\r\n"+eraseLine)
	fmt.Fprint(s.out, home+eraseLine+shown+"\r\n"+eraseRest)
}

// fit breaks the lines to rows of a screen. What does not fit is cut off at the end.
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

// say tells what has happened: above the status where the screen is redrawn, and once more when that ends.
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

// close brings back the terminal as it was, and leaves there what happened.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.open = false
		fmt.Fprint(s.out, firstScreen+strings.Join(append(s.said, ""), "\n"))
	}
}
