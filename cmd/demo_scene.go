package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"holdfast/embedded/health"
)

// demoScene is all there is to show at one time.
type demoScene struct {
	now     time.Time
	started time.Time
	verdict string               // the health, in capitals
	status  health.ClusterStatus // with every node of the demo in it
	pids    map[string]int       // by node, of those that run
	events  []string
	hints   []string
	passing bool // nothing is kept
}

// grace is how long a cluster may take to begin before what is missing is called a fault.
const grace = 15 * time.Second

// starting is the verdict on a cluster that was never healthy yet and need not be.
const starting = "STARTING"

// scene joins what the nodes say with what only the demo knows: which processes run.
func (d *demo) scene(now time.Time) demoScene {
	s := demoScene{now: now, started: d.started, status: d.status, pids: map[string]int{}, events: d.events, passing: d.passing}
	s.status.Nodes = slices.Clone(d.status.Nodes)
	if s.status.Asked == "" {
		s.status.Cluster, s.status.Health = d.children[0].node.cfg.Cluster.Name, health.NoQuorum
		s.status.Findings = []health.Finding{health.New(health.QuorumLost, "", "no node answers")}
	}
	var nodes []demoNode
	for _, c := range d.children {
		nodes = append(nodes, c.node)
		i := slices.IndexFunc(s.status.Nodes, func(n health.NodeStatus) bool { return n.Node == c.node.name })
		fresh := health.NodeStatus{Node: c.node.name, Address: c.node.address, Since: c.since, State: "starting", Why: "started, nothing heard of it yet"}
		if c.process == nil {
			fresh.State, fresh.Why = "down", fmt.Sprintf("died (%s); started again after %s", c.death, restartAfter)
			if c.death == "" {
				fresh.Why = "being started"
			}
		} else {
			s.pids[c.node.name] = c.process.Pid
		}
		switch {
		case i < 0:
			s.status.Nodes = append(s.status.Nodes, fresh)
		case c.process == nil, d.status.Time.Before(c.since),
			!s.status.Nodes[i].Reached && s.status.Nodes[i].Since.Before(c.since): // we know better
			s.status.Nodes[i] = fresh
		}
	}
	slices.SortFunc(s.status.Nodes, func(a, b health.NodeStatus) int { return strings.Compare(a.Node, b.Node) })
	s.verdict = strings.ToUpper(string(s.status.Health))
	if d.healthy == 0 && now.Sub(d.started) < grace {
		s.verdict = starting
	} else if s.status.Health == health.Healthy && (len(s.pids) < len(d.children) || d.outdated()) {
		s.verdict = strings.ToUpper(string(health.Degraded)) // the nodes have not noticed yet
	}
	if d.hints != nil {
		s.hints = d.hints(s)
	} else {
		s.hints = append(demoHints(d.dir, nodes), s.killHint())
	}
	return s
}

// outdated reports whether a node was started after the nodes were last asked.
func (d *demo) outdated() bool {
	return slices.ContainsFunc(d.children, func(c *demoChild) bool { return d.status.Time.Before(c.since) })
}

// killHint is the command that shows best what the cluster is made for.
func (s demoScene) killHint() string {
	for _, n := range s.status.Nodes {
		if pid := s.pids[n.Node]; pid != 0 && n.Etcd != nil && n.Etcd.Leader {
			return fmt.Sprintf("kill -9 %d   # %s, the leader", pid, n.Node)
		}
	}
	return "kill -9 PID"
}

// nodes is one line for each node. It has the process, which the table of `holdfast status` cannot know, and
// fits 80 columns for that.
func (s demoScene) nodes() []string {
	t := newTable("NODE", "SLOT", "ADDRESS", "STATE", "TERM", "REVISION", "DB SIZE", "LAST BACKUP", "PID")
	for _, n := range s.status.Nodes {
		row := table.Row{n.Node, "-", n.Address, n.State, "-", "-", "-", "-", "-"}
		if v := n.Volume; v != nil {
			row[1] = v.Slot
		}
		if e := n.Etcd; e != nil {
			row[4], row[5], row[6] = e.Term, e.Revision, health.Bytes(e.Size)
		}
		if b := n.Backup; b != nil && b.Time != nil {
			row[7] = health.Age(s.now, *b.Time) + " ago"
		}
		if pid := s.pids[n.Node]; pid != 0 {
			row[8] = pid
		}
		t.AppendRow(row)
	}
	// Numbers stay on the right when a node is down and has none: a column must not jump.
	var numbers []table.ColumnConfig
	for _, column := range []int{5, 6, 7, 8, 9} {
		numbers = append(numbers, table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(numbers)
	lines := strings.Split(t.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// title is the first line.
func (s demoScene) title() string {
	text := fmt.Sprintf("cluster %s: %s", s.status.Cluster, s.verdict)
	if r := s.status.Record; r != nil {
		text += fmt.Sprintf(", generation %d (%s, %s)", r.Generation, r.Cause, r.ID)
	}
	return text + ", up " + health.Age(s.now, s.started)
}

// why says for one node what it does and why.
func why(n health.NodeStatus) string {
	text := n.Why
	if n.Error != "" {
		text += "; it did not succeed: " + n.Error
	}
	return text
}

// line is a line of the screen.
type line struct {
	text  string
	style string // of the terminal; "": plain
	whole bool   // to be copied: the terminal wraps it, and it is never cut
}

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

// frame lays the scene out for a screen of that many columns and rows. When it does not fit, sentences are cut
// to one line each and the blank lines go; when that is not enough, the end goes.
func (s demoScene) frame(columns, rows int) []line {
	lines := s.lay(columns, false)
	if height(lines, columns) > rows {
		lines = s.lay(columns, true)
	}
	for len(lines) > 1 && height(lines, columns) > rows {
		lines = lines[:len(lines)-1]
		lines[len(lines)-1] = line{text: cut("… (make the window larger for the rest)", columns), style: dim}
	}
	return lines
}

func (s demoScene) lay(columns int, dense bool) []line {
	var lines []line
	add := func(style, text string) { lines = append(lines, line{text: cut(text, columns), style: style}) }
	section := func(title string) {
		if !dense {
			add("", "")
		}
		add(bold, title)
	}
	sentence := func(style, head, text string) {
		if dense {
			add(style, head+text)
			return
		}
		for i, part := range wrap(text, columns-len(head)) {
			if i > 0 {
				head = strings.Repeat(" ", len(head))
			}
			add(style, head+part)
		}
	}
	color := map[string]string{"HEALTHY": green, "DEGRADED": yellow, "NO QUORUM": red}[s.verdict]
	add(bold+color, s.title())
	if !dense {
		add("", "")
	}
	for i, row := range s.nodes() {
		style := ""
		if i == 0 {
			style = dim
		}
		add(style, row)
	}
	section("why")
	for _, n := range s.status.Nodes {
		sentence("", "  "+n.Node+"  ", why(n))
	}
	if len(s.status.Reasons()) > 0 && s.verdict != starting {
		section("not healthy because")
		for _, r := range s.status.Reasons() {
			sentence(color, "  - ", r)
		}
	}
	if len(s.events) > 0 {
		section("events")
		for _, e := range s.events {
			sentence("", "  ", e)
		}
	}
	section("try, in another terminal")
	for _, h := range s.hints {
		lines = append(lines, line{text: clean(h), whole: true})
	}
	if !dense {
		add("", "")
	}
	if s.passing {
		add(dim, "Ctrl-C stops the nodes and removes everything")
	} else {
		add(dim, "Ctrl-C stops the nodes and keeps their data")
	}
	return lines
}

// height is how many rows the lines take.
func height(lines []line, columns int) int {
	n := 0
	for _, l := range lines {
		n += l.rows(columns)
	}
	return n
}

// rows counts runes: nothing here is written in wide ones.
func (l line) rows(columns int) int {
	return max(1, (len([]rune(l.text))+columns-1)/max(1, columns))
}

// cut shortens text to width columns, and says so.
func cut(text string, width int) string {
	runes := []rune(clean(text))
	if len(runes) <= width {
		return string(runes)
	}
	return string(runes[:max(0, width-1)]) + "…"
}

// wrap breaks text between words, and within those that are longer than the width. A width too small to be
// read is taken for a larger one.
func wrap(text string, width int) []string {
	width = max(width, 20)
	var lines []string
	var now []rune
	for word := range strings.FieldsSeq(clean(text)) {
		runes := []rune(word)
		if len(now) > 0 && len(now)+1+len(runes) <= width {
			now = append(append(now, ' '), runes...)
			continue
		}
		if len(now) > 0 {
			lines = append(lines, string(now))
		}
		for len(runes) > width {
			lines, runes = append(lines, string(runes[:width])), runes[width:]
		}
		now = runes
	}
	return append(lines, string(now))
}

// clean makes one line of text, and takes out what would change the terminal: some of it comes from logs.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
