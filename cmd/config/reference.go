package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/durable"
)

// maxReferred is the largest size of a referenced value, in bytes.
const maxReferred = 64 << 10

// A value, or an element of a list, that is exactly ${env:NAME} or ${file:/absolute/path} is replaced by the content of
// the variable or the file.
var (
	reference    = regexp.MustCompile(`^\$\{(env|file):(.*)\}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// referred is a reference and its value. The value may be a secret, so only the reference is ever shown.
type referred struct{ reference, value string }

// refer returns the text of k with its references replaced by their values. The error names the reference, and nothing
// of the value.
func (l *Loaded) refer(k Key, text string, environ []string) (string, error) {
	items := []string{text}
	if word, _ := k.kind(); word == "list" {
		items = splitList(text)
	}
	found, err := replace(items, environ)
	if err != nil || len(found) == 0 {
		return text, err
	}
	l.referred, l.shown[k.Name] = append(l.referred, found...), text
	return strings.Join(items, ","), nil
}

// replace replaces the items that are references by their values, and returns those references.
func replace(items, environ []string) (found []referred, err error) {
	for i, item := range items {
		m := reference.FindStringSubmatch(strings.TrimSpace(item))
		if m == nil {
			continue
		}
		value, err := lookUp(m[1], m[2], environ)
		if err != nil {
			return nil, fmt.Errorf("%s %w", m[0], err)
		}
		found = append(found, referred{m[0], value})
		items[i] = value
	}
	return found, nil
}

// lookUp returns the value of a reference, without the newline at its end.
func lookUp(kind, name string, environ []string) (string, error) {
	if kind == "env" {
		return lookUpVariable(name, environ)
	}
	if !filepath.IsAbs(name) {
		return "", errors.New("must name an absolute path")
	}
	data, err := durable.Read(name, maxReferred)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return oneLine(data)
}

func lookUpVariable(name string, environ []string) (string, error) {
	if !variableName.MatchString(name) {
		return "", errors.New("must name a variable: letters, digits and _")
	}
	for _, pair := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return oneLine([]byte(value))
		}
	}
	return "", errors.New("is not set in the environment")
}

// oneLine returns data as text, or an error unless it is one line of UTF-8.
func oneLine(data []byte) (string, error) {
	if len(data) > maxReferred {
		return "", fmt.Errorf("must hold at most %d KiB", maxReferred>>10)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if bytes.ContainsFunc(data, func(r rune) bool { return notText(r) || r == '\n' || r == '\r' }) {
		return "", errors.New("must hold one line of UTF-8 text")
	}
	if len(data) == 0 {
		return "", errors.New("must not be empty")
	}
	return string(data), nil
}

// Text returns k's value as it may be shown: with references instead of their values.
func (l *Loaded) Text(k Key) string {
	if text, ok := l.shown[k.Name]; ok {
		return text
	}
	return k.Text(&l.Config)
}

// plain returns k's value for YAML and JSON, with references instead of their values.
func (l *Loaded) plain(k Key) any {
	text, ok := l.shown[k.Name]
	if word, _ := k.kind(); ok && word == "list" {
		return splitList(text)
	}
	if ok {
		return text
	}
	return k.plain(&l.Config)
}

// minHidden is the shortest length, in bytes, of a value that is hidden in texts. A shorter value is no secret, and
// replacing it would make texts unreadable.
const minHidden = 4

// hide replaces the values of references in a text by the references, also where the text quotes them with %q.
func (l *Loaded) hide(text string) string {
	for _, r := range l.referred {
		if len(r.value) >= minHidden {
			quoted := strings.Trim(strconv.Quote(r.value), `"`)
			text = strings.NewReplacer(r.value, r.reference, quoted, r.reference).Replace(text)
		}
	}
	return text
}

// hideAll hides the values of references in errors. An error that it changes keeps its text and its key, and loses what
// it wraps.
func (l *Loaded) hideAll(errs []error) []error {
	for i, err := range errs {
		if w, ok := errors.AsType[Wrong](err); ok {
			w.Problem = l.hide(w.Problem)
			errs[i] = w
		} else if text := l.hide(err.Error()); text != err.Error() {
			errs[i] = errors.New(text)
		}
	}
	return errs
}

// plain returns k's value in c for YAML and JSON: durations as text, and lists and maps never as null.
func (k Key) plain(c *Config) any {
	v := k.value(c)
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return k.Text(c)
	case v.Kind() == reflect.Slice && v.IsNil():
		return []string{}
	case v.Kind() == reflect.Map && v.IsNil():
		return map[string]bool{}
	default:
		return v.Interface()
	}
}
