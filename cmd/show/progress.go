package show

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// Progress shows the progress of an operation on a backup: as a bar on a terminal, and as a line now and then in a
// log. A short operation prints nothing to a log.
type Progress struct {
	w        io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	phase    string
	began    time.Time // the start of the phase
	told     time.Time // the last line, or the start of the phase
	at       int64     // bytes done at the time told
}

// NewProgress shows progress on w.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// Show shows progress. It ignores errors, because the operation must continue without a terminal.
func (p *Progress) Show(s snapshot.Progress) {
	if p.phase != s.Phase {
		p.End()
		p.phase, p.began, p.told, p.at = s.Phase, time.Now(), time.Now(), 0
		if p.terminal {
			p.bar = progressbar.NewOptions64(s.Total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
				progressbar.OptionUseIECUnits(true), progressbar.OptionSetPredictTime(true),
				progressbar.OptionSetDescription(s.Phase),
				progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
		}
	}
	if p.bar != nil {
		_ = p.bar.Set64(s.Done)
		return
	}
	p.line(s, time.Now())
}

const (
	lineEvery = 5 * time.Second // at most one line in this time, and only when another tenth is done
	lineLate  = time.Minute     // at least one line in this time, so that a slow operation does not look dead
)

// line writes a line such as "verifying 42 % of 1.0 GiB, 96.0 MiB/s, 6s left", if one is due.
func (p *Progress) line(s snapshot.Progress, now time.Time) {
	since := now.Sub(p.told)
	if s.Total <= 0 || since < lineEvery || since < lineLate && s.Done-p.at < s.Total/10 {
		return
	}
	p.told, p.at = now, s.Done
	text := fmt.Sprintf("%s %d %% of %s", s.Phase, int(100*float64(s.Done)/float64(s.Total)), health.Bytes(s.Total))
	if rate := float64(s.Done) / now.Sub(p.began).Seconds(); rate >= 1 {
		left := time.Duration(float64(s.Total-s.Done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s/s, %s left", health.Bytes(int64(rate)), left.Round(time.Second))
	}
	fmt.Fprintln(p.w, text)
}

// End removes the bar from the terminal.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
	p.phase = ""
}
