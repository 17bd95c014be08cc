package plan

import (
	"fmt"
	"strings"
)

// Command is a command of holdfast that an operator may give, without the program's name: "volume set-aside". In a
// sentence it stands with its program in backquotes.
type Command string

// setVolumeAside sets aside what is on a volume.
const setVolumeAside Command = "volume set-aside"

// Forget has all nodes forget a lost one.
func Forget(node string) Command { return command("gossip forget %s", node) }

// command makes a Command.
func command(format string, args ...any) Command { return Command(fmt.Sprintf(format, args...)) }

// Line is what the operator types.
func (c Command) Line() string { return "holdfast " + string(c) }

// String implements fmt.Stringer.
func (c Command) String() string { return "`" + c.Line() + "`" }

// Said is a sentence for the operator and the commands that it names, so that nobody has to look for them in it.
type Said struct {
	Text     string
	Commands []Command
}

// say makes a sentence of its parts, and takes the commands from those that are one or name some.
func say(format string, args ...any) Said {
	s := Said{Text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		switch v := a.(type) {
		case Command:
			s.Commands = append(s.Commands, v)
		case Said:
			s.Commands = append(s.Commands, v.Commands...)
		}
	}
	return s
}

// String implements fmt.Stringer.
func (s Said) String() string { return s.Text }

// wait waits, and says for what.
func wait(format string, args ...any) Action {
	s := say(format, args...)
	return Action{Kind: Wait, Why: s.Text, Commands: s.Commands}
}

// but adds obstacles, of which empty ones are none. Each is a string or a Said.
func (a Action) but(obstacles ...any) Action {
	a.Obstacles, a.Commands = a.Obstacles[:len(a.Obstacles):len(a.Obstacles)], a.Commands[:len(a.Commands):len(a.Commands)]
	for _, o := range obstacles {
		if s := say("%s", o); s.Text != "" {
			a.Obstacles, a.Commands = append(a.Obstacles, s.Text), append(a.Commands, s.Commands...)
		}
	}
	return a
}

// Text is the action's reason as one sentence, its obstacles included.
func (a Action) Text() string { return strings.Join(append([]string{a.Why}, a.Obstacles...), "; ") }
