package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

// demoView shows scenes to people.
type demoView interface {
	show(demoScene)
	event(text string)
	close() // nothing is shown after it
}

// newDemoView returns a screen on a terminal, and a journal elsewhere.
func newDemoView(out io.Writer) demoView {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return &screen{file: f, plain: os.Getenv("NO_COLOR") != ""} // https://no-color.org
	}
	return &journal{out: out, started: time.Now(), said: map[string]string{}}
}

// screen redraws a terminal in place. It writes only the lines that changed, so that nothing flickers, and
// text that is marked with the mouse stays marked.
type screen struct {
	file          *os.File
	plain         bool // no colors
	open          bool
	columns, rows int
	shown         []line
	kept          []string // events, for the time after
}

// The sequences are those of xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
const (
	otherScreen = "\x1b[?1049h" // what was on the terminal before comes back at the end
	firstScreen = "\x1b[?1049l"
	eraseScreen = "\x1b[2J"
	eraseLine   = "\x1b[2K"
	noStyle     = "\x1b[0m"
)

func at(row int) string { return fmt.Sprintf("\x1b[%d;1H", row+1) }

func (s *screen) show(scene demoScene) {
	columns, rows, err := term.GetSize(int(s.file.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		columns, rows = 80, 24
	}
	lines := scene.frame(columns, rows)
	var b strings.Builder
	if !s.open {
		b.WriteString(otherScreen)
	}
	if !s.open || columns != s.columns || rows != s.rows || moved(s.shown, lines, columns) {
		b.WriteString(eraseScreen)
		s.shown = nil
	}
	row := 0
	for i, l := range lines {
		height := l.rows(columns)
		if i >= len(s.shown) || s.shown[i] != l {
			for r := row + height - 1; r >= row; r-- {
				b.WriteString(at(r) + eraseLine)
			}
			b.WriteString(s.styled(l))
		}
		row += height
	}
	b.WriteString(at(min(row, rows-1)))
	s.open, s.columns, s.rows, s.shown = true, columns, rows, lines
	_, _ = s.file.WriteString(b.String()) // a terminal that is gone sends SIGHUP
}

// moved reports whether any line is in another row than it was.
func moved(old, lines []line, columns int) bool {
	if len(old) != len(lines) {
		return true
	}
	for i := range old {
		if old[i].rows(columns) != lines[i].rows(columns) {
			return true
		}
	}
	return false
}

func (s *screen) styled(l line) string {
	if s.plain || l.style == "" {
		return l.text
	}
	return l.style + l.text + noStyle
}

func (s *screen) event(text string) {
	s.kept = append(s.kept, time.Now().Format(time.TimeOnly)+"  "+clean(text))
	s.kept = s.kept[max(0, len(s.kept)-20):]
}

// close brings back the terminal as it was, and leaves there what happened.
func (s *screen) close() {
	if !s.open {
		return
	}
	text := firstScreen
	for _, e := range s.kept {
		text += e + "\n"
	}
	_, _ = s.file.WriteString(text)
}

// journal writes a line for each change.
type journal struct {
	out     io.Writer
	started time.Time
	said    map[string]string // by node, or "" for the cluster: what was said last
	hinted  bool
}

func (j *journal) show(s demoScene) {
	for _, n := range s.status.Nodes {
		slot := "no slot"
		if n.Volume != nil {
			slot = "slot " + n.Volume.Slot
		}
		j.change(n.Node, fmt.Sprintf("%s: %s, %s: %s", n.Node, slot, n.State, why(n)))
	}
	text := fmt.Sprintf("cluster %s: %s", s.status.Cluster, s.verdict)
	if len(s.status.Reasons()) > 0 && s.verdict != starting {
		text += ": " + strings.Join(s.status.Reasons(), "; ")
	}
	j.change("", text)
	if s.verdict == "HEALTHY" && !j.hinted {
		j.hinted = true
		for _, h := range s.hints {
			j.say("try: " + h)
		}
	}
}

// change says text unless it differs only in numbers from what was said last: those change all the time.
func (j *journal) change(about, text string) {
	key := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
	if j.said[about] != key {
		j.said[about] = key
		j.say(text)
	}
}

func (j *journal) event(text string) { j.say(text) }

func (j *journal) say(text string) {
	fmt.Fprintf(j.out, "%6.1fs  %s\n", time.Since(j.started).Seconds(), clean(text))
}

func (j *journal) close() {}
