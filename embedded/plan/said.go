package plan

import (
	"fmt"
	"strings"
)

// Command is a holdfast command for an operator, without the program's name: "volume set-aside". In a sentence it
// appears in backquotes, with the program's name.
type Command string

// setVolumeAside sets a volume's content aside.
const setVolumeAside Command = "volume set-aside"

// Forget makes all nodes forget a lost one.
func Forget(node string) Command { return command("gossip forget %s", node) }

func command(format string, args ...any) Command { return Command(fmt.Sprintf(format, args...)) }

// Line is what the operator types.
func (c Command) Line() string { return "holdfast " + string(c) }

// String implements fmt.Stringer.
func (c Command) String() string { return "`" + c.Line() + "`" }

// Said is a sentence for the operator with the commands in it, so that nobody has to parse the sentence for them.
type Said struct {
	Text     string
	Commands []Command
}

// say formats a sentence, and collects the commands from those arguments that are a Command or a Said.
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

// wait returns a Wait with its reason.
func wait(format string, args ...any) Action {
	s := say(format, args...)
	return Action{Kind: Wait, Why: s.Text, Commands: s.Commands}
}

// but adds obstacles, each a string or a Said, and skips empty ones.
func (a Action) but(obstacles ...any) Action {
	a.Obstacles, a.Commands = a.Obstacles[:len(a.Obstacles):len(a.Obstacles)], a.Commands[:len(a.Commands):len(a.Commands)]
	for _, o := range obstacles {
		if s := say("%s", o); s.Text != "" {
			a.Obstacles, a.Commands = append(a.Obstacles, s.Text), append(a.Commands, s.Commands...)
		}
	}
	return a
}

// acts reports whether there is something to do. The zero Action is nothing; a Wait is a note on what prevents it.
func (a Action) acts() bool { return a.Kind != "" && a.Kind != Wait }

// said is the reason of an action, "" of none.
func (a Action) said() Said { return Said{a.Why, a.Commands} }

// Text is the action's reason and its obstacles as one sentence.
func (a Action) Text() string { return strings.Join(append([]string{a.Why}, a.Obstacles...), "; ") }
