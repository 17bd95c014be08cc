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

// Progress shows how far an operation on a backup has come: a bar on a terminal, and elsewhere, in a log, a line now
// and then. What takes a moment says nothing there.
type Progress struct {
	w        io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	phase    string
	began    time.Time // of the phase
	told     time.Time // the last line, or the begin of the phase
	at       int64     // bytes done at that time
}

// NewProgress shows progress on w.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// Show tells of progress. A terminal that is gone is no reason to stop what is shown.
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
	lineEvery = 5 * time.Second // at most one line in this time, and each says that a tenth more is done,
	lineLate  = time.Minute     // but for one in this time, so that a slow operation does not look dead
)

// line writes a line if there is something to say, as "verifying 42 % of 1.0 GiB, 96.0 MiB/s, 6s left".
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
