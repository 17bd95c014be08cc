package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// VariablePrefix begins every environment variable of holdfast.
const VariablePrefix = "HOLDFAST_"

// Key is one leaf of Config. All keys are found by reflection, so that the file, the flags and the environment can
// never know different ones.
//
// Every source gives a value as text in the syntax of a flag: [a, b] or {x: true} in YAML is "a,b" or "x=true". One
// decoder reads that text, so all sources accept the same values.
type Key struct {
	Name  string // "gossip.seeds"
	typ   reflect.Type
	index []int // of the field, for reflect's FieldByIndex
}

// Keys returns the keys in the order of the structs. The caller must not change the slice.
func Keys() []Key { return allKeys() }

var allKeys = sync.OnceValue(func() []Key { return keysOf(reflect.TypeFor[Config](), "", nil) })

func keysOf(t reflect.Type, prefix string, index []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		k := Key{prefix + name, f.Type, append(slices.Clone(index), i)}
		switch {
		case option == "squash": // its keys belong to the section around it
			keys = append(keys, keysOf(f.Type, prefix, k.index)...)
		case name == "-": // derived, not a key
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, keysOf(f.Type, k.Name+".", k.index)...)
		default:
			keys = append(keys, k)
		}
	}
	return keys
}

// Variable returns the name of a key in the environment.
func Variable(key string) string {
	return VariablePrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// kind returns the type of k in one word, for --help, and in words that follow "must be".
func (k Key) kind() (word, expected string) {
	switch {
	case k.typ == reflect.TypeFor[time.Duration]():
		return "duration", "a duration such as 15m, 1h30m or 7d"
	case k.typ.Kind() == reflect.Slice:
		return "list", "a list of words without commas"
	case k.typ.Kind() == reflect.Map:
		return "map", "pairs of a name and true or false"
	case k.typ.Kind() == reflect.Bool:
		return "bool", "true or false"
	case k.typ.Kind() == reflect.String:
		return "string", "one word"
	case k.bytes():
		return "size", "a number of bytes, such as 2147483648, 512MiB or 8GiB"
	case k.typ.Kind() >= reflect.Uint && k.typ.Kind() <= reflect.Uint64:
		return "number", "a whole number, not negative"
	default:
		return "number", "a whole number"
	}
}

// bytes reports whether k is a number of bytes.
func (k Key) bytes() bool { return strings.HasSuffix(k.Name, "-bytes") }

func (k Key) value(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(k.index)
}

// Text returns k's value in c in the syntax of a flag.
func (k Key) Text(c *Config) string {
	switch v := k.value(c).Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case map[string]bool:
		pairs := make([]string, 0, len(v))
		for name, on := range v {
			pairs = append(pairs, name+"="+strconv.FormatBool(on))
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ",")
	case time.Duration:
		return FormatDuration(v)
	default:
		return fmt.Sprint(v)
	}
}

// FormatDuration writes 15m and 1w where Go writes 15m0s and 168h0m0s.
func FormatDuration(d time.Duration) string {
	if d%time.Millisecond != 0 {
		return d.String()
	}
	return model.Duration(d).String()
}

// decode sets k's field of c to the value in text, or returns an error.
func (k Key) decode(text string, c *Config) error {
	into := reflect.New(k.typ).Elem() // not the field itself: a list or map must lose its old elements
	if err := k.read(text, into); err != nil {
		_, expected := k.kind()
		return fmt.Errorf("must be %s, got %q", expected, text)
	}
	k.value(c).Set(into)
	return nil
}

// read parses text into a value of k's type.
func (k Key) read(text string, into reflect.Value) (err error) {
	switch v := into.Addr().Interface().(type) {
	case *time.Duration:
		*v, err = ParseDuration(text)
	case *[]string:
		*v = splitList(text)
	case *map[string]bool:
		*v, err = splitPairs(text)
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *string:
		*v = text
	default:
		if k.bytes() {
			var n uint64
			if n, err = humanize.ParseBytes(text); err != nil {
				return err
			}
			text = strconv.FormatUint(n, 10)
		}
		if into.CanInt() {
			var n int64
			n, err = strconv.ParseInt(text, 0, into.Type().Bits())
			into.SetInt(n)
			return err
		}
		var n uint64
		n, err = strconv.ParseUint(text, 0, into.Type().Bits())
		into.SetUint(n)
	}
	return err
}

// ParseDuration accepts Go's syntax, and Prometheus' syntax with days, weeks and years (of 365 days).
func ParseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(text)
	return time.Duration(d), err
}

// splitPairs parses "a=true, b=false".
func splitPairs(text string) (map[string]bool, error) {
	m := map[string]bool{}
	for _, pair := range splitList(text) {
		name, value, found := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if !found || err != nil {
			return nil, fmt.Errorf("%q is not name=true or name=false", pair)
		}
		m[strings.TrimSpace(name)] = on
	}
	return m, nil
}

// splitList parses "a, b". An empty text is nil, as in a default.
func splitList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// DefaultYAML is the commented default file: what `config default` prints, and where the help of every flag comes from.
//
//go:embed default.yaml
var DefaultYAML string

// helpTexts returns the first paragraph of each key's comment in default.yaml.
var helpTexts = sync.OnceValue(func() map[string]string {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(DefaultYAML), &doc); err != nil {
		panic(fmt.Sprintf("read embedded default.yaml: %v", err)) // a test proves that it can be read
	}
	texts := map[string]string{}
	var walk func(n *yaml.Node, prefix string)
	walk = func(n *yaml.Node, prefix string) {
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			name := prefix + n.Content[i].Value
			var words []string
			for line := range strings.Lines(n.Content[i].HeadComment) {
				line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
				if line == "" {
					break
				}
				words = append(words, line)
			}
			texts[name] = strings.Join(words, " ")
			walk(n.Content[i+1], name+".")
		}
	}
	walk(doc.Content[0], "")
	return texts
})

// flagValue holds the text of a flag. It checks nothing, so that a wrong flag is reported together with all other
// errors.
type flagValue struct {
	text string
	word string
	set  bool
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.word }

// Set implements [pflag.Value]. It replaces the default. A list or map that is given again is extended.
func (v *flagValue) Set(text string) error {
	if v.set && (v.word == "list" || v.word == "map") {
		text = v.text + "," + text
	}
	v.text, v.set = text, true
	return nil
}

// FileFlag names the configuration file, and fileVariable does so in the environment.
const (
	FileFlag     = "config"
	fileVariable = VariablePrefix + "CONFIG"
)

// keyFlag annotates the flags that are keys of the configuration.
const keyFlag = "holdfast-key"

// FlagsText returns the help text of a command's flags. It leaves out the hundred keys of the configuration, and says
// where to find them.
func FlagsText(fs *pflag.FlagSet) string {
	own, keys := pflag.NewFlagSet("", pflag.ContinueOnError), false
	fs.VisitAll(func(f *pflag.Flag) {
		if _, key := f.Annotations[keyFlag]; key {
			keys = true
		} else {
			own.AddFlag(f)
		}
	})
	text := strings.TrimRight(own.FlagUsagesWrapped(helpColumns), "\n")
	if keys {
		text += "\n\nEvery key of the configuration is a flag as well, as --cluster.name: `holdfast config default` " +
			"shows\nthem all, with what they mean."
	}
	return text
}

// helpColumns is the width of the help.
const helpColumns = 110

// AddFlags adds --config and one flag for each key to fs.
func AddFlags(fs *pflag.FlagSet) {
	fs.StringP(FileFlag, "c", "", "configuration `file` (YAML); "+fileVariable+" in the environment")
	help, defaults := helpTexts(), Default()
	for _, k := range Keys() {
		word, _ := k.kind()
		// pflag would use a word in backquotes as the name of the value.
		value, usage := &flagValue{text: k.Text(&defaults), word: word}, strings.ReplaceAll(help[k.Name], "`", "'")
		flag := fs.VarPF(value, k.Name, "", usage)
		flag.Annotations = map[string][]string{keyFlag: nil}
		if word == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}
