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

// maxReferred bounds what a reference stands for, in bytes.
const maxReferred = 64 << 10

// A value, or an element of a list, that is exactly ${env:NAME} or ${file:/absolute/path} stands for what the variable
// or the file holds.
var (
	reference    = regexp.MustCompile(`^\$\{(env|file):(.*)\}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// referred is what a reference stands for. It may be a secret: only the reference is ever shown.
type referred struct{ reference, value string }

// refer returns what a text of k stands for where it is or holds references, and else the text. The error names the
// reference and nothing of the value.
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

// replace puts what they stand for in the place of those items that are references, and returns these.
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

// lookUp returns what a reference stands for, without the newline at its end.
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

// oneLine returns data as the text of a value.
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

// Text is k's value as it may be shown: the reference where one was written.
func (l *Loaded) Text(k Key) string {
	if text, ok := l.shown[k.Name]; ok {
		return text
	}
	return k.Text(&l.Config)
}

// plain is k's value as YAML and JSON may show it: the reference where one was written.
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

// minHidden is the length from which a value is hidden in texts that happen to hold it. What is shorter is no secret,
// and to replace it would make nonsense of the text.
const minHidden = 4

// hide puts references in the place of what they stand for, also as %q writes it.
func (l *Loaded) hide(text string) string {
	for _, r := range l.referred {
		if len(r.value) >= minHidden {
			quoted := strings.Trim(strconv.Quote(r.value), `"`)
			text = strings.NewReplacer(r.value, r.reference, quoted, r.reference).Replace(text)
		}
	}
	return text
}

// hideAll hides what references stand for in errors. Nothing but the text, and a key, is left of those it changes.
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

// plain returns k's value in c as YAML and JSON should show it: durations as text, lists and maps never as null.
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
