package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"holdfast/durable"
)

// maxFile is the largest size of a configuration file, in bytes. A larger one is another file, named by mistake.
const maxFile = 1 << 20

// maxErrors is how many errors of one file are reported. A file with more is another file, named by mistake.
const maxErrors = 100

// Setting is the value of one key from one source.
type Setting struct {
	Key    string // one of [Keys]
	Text   string // in the syntax of a flag
	Origin string // "file config.yaml:12", "env HOLDFAST_X", "flag --x", or the flag of another program
}

func readFile(name string) ([]byte, error) {
	data, err := durable.Read(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read config file: %w", err)
	}
	return data, nil
}

// fileReader walks the YAML nodes of one file. It does not decode into Config, because only nodes have line numbers,
// and because decoding stops at the first error.
type fileReader struct {
	name     string
	seen     map[string]int // line of each key met so far
	settings []Setting
	errs     []error
}

// parse returns the settings in the YAML of the file called name, and all errors. With errors, it returns the settings
// that could be read.
func parse(name string, data []byte) ([]Setting, []error) {
	r := &fileReader{name: name, seen: map[string]int{}}
	if i := bytes.IndexFunc(data, notText); i >= 0 {
		return nil, []error{fmt.Errorf("%s:%d: must be UTF-8 text", name, 1+bytes.Count(data[:i], []byte("\n")))}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file is valid
		return nil, nil
	case err != nil:
		return nil, []error{r.syntaxError(err)}
	}
	r.section("", doc.Content[0])
	if err := dec.Decode(&second); err == nil {
		r.errs = append(r.errs, fmt.Errorf("%s: must hold one document, a second one begins", r.at(&second)))
	} else if !errors.Is(err, io.EOF) {
		r.errs = append(r.errs, r.syntaxError(err))
	}
	return r.settings, r.errs
}

// notText reports whether YAML never allows this character. utf8.RuneError is a byte that is not UTF-8.
func notText(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r)
}

// yamlLine matches the line number in an error of the yaml package, which has no error type with the number. The
// package leaves it out if it is 1.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (r *fileReader) syntaxError(err error) error {
	text, line := err.Error(), "1"
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if text = text[len(m[0]):]; m[1] != "" {
			line = m[1]
		}
	}
	if strings.Contains(text, "cannot start any token") {
		text += " (YAML indents with spaces, not tabs)"
	}
	return fmt.Errorf("%s:%s: %s", r.name, line, text)
}

func (r *fileReader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.name, n.Line) }

func (r *fileReader) fail(n *yaml.Node, key, format string, args ...any) {
	r.errs = append(r.errs, Wrong{Key: key, Problem: fmt.Sprintf(format, args...), Origin: r.at(n)})
}

// section reads the mapping n, whose keys begin with prefix.
func (r *fileReader) section(prefix string, n *yaml.Node) {
	n = resolve(n)
	if isNull(n) { // all its keys are commented out
		return
	}
	if n.Kind != yaml.MappingNode {
		if prefix == "" {
			r.errs = append(r.errs, fmt.Errorf("%s: must be a mapping of sections such as cluster and node, got %s", r.at(n),
				describe(n)))
			return
		}
		section := strings.TrimSuffix(prefix, ".")
		r.fail(n, section, "must be a section with keys below it, got %s", describe(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if len(r.errs) == maxErrors {
			r.errs = append(r.errs, fmt.Errorf("%s: more is wrong below here, is this the right file?", r.at(n.Content[i])))
		}
		if len(r.errs) > maxErrors {
			return
		}
		r.entry(prefix, n.Content[i], n.Content[i+1])
	}
}

// entry reads one key and its value.
func (r *fileReader) entry(prefix string, keyNode, value *yaml.Node) {
	name := prefix + keyNode.Value
	if line, dup := r.seen[name]; dup {
		r.fail(keyNode, name, "must be given once, got it at line %d already", line)
		return
	}
	r.seen[name] = keyNode.Line
	k := slices.IndexFunc(Keys(), func(k Key) bool { return k.Name == name })
	switch {
	case k >= 0:
		r.value(Keys()[k], keyNode, resolve(value))
	case slices.Contains(sections(), name):
		r.section(name+".", value)
	default:
		r.errs = append(r.errs, Wrong{Key: name, Problem: "unknown key", Origin: r.at(keyNode),
			Hint: didYouMean(name)})
	}
}

// value turns a value into text in the syntax of a flag.
func (r *fileReader) value(k Key, keyNode, n *yaml.Node) {
	word, expected := k.kind()
	text, ok := n.Value, n.Kind == yaml.ScalarNode
	switch {
	case isNull(n):
		return // commented out, so the default applies
	case n.Kind == yaml.SequenceNode && word == "list":
		text, ok = join(n.Content, 1)
	case n.Kind == yaml.MappingNode && word == "map":
		text, ok = join(n.Content, 2)
	}
	if !ok {
		r.fail(keyNode, k.Name, "must be %s, got %s", expected, describe(n))
		return
	}
	r.settings = append(r.settings, Setting{k.Name, text, "file " + r.at(keyNode)})
}

// join writes groups of n scalars as "a,b" or "a=x,b=y". It is not ok if one of them is no scalar, or contains a
// comma, at which it would be split later.
func join(nodes []*yaml.Node, n int) (text string, ok bool) {
	var items []string
	for group := range slices.Chunk(nodes, n) {
		var parts []string
		for _, node := range group {
			if node = resolve(node); node.Kind != yaml.ScalarNode || strings.Contains(node.Value, ",") {
				return "", false
			}
			parts = append(parts, node.Value)
		}
		items = append(items, strings.Join(parts, "="))
	}
	return strings.Join(items, ","), true
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%.100q", n.Value)
	}
}
