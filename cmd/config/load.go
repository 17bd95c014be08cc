package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// OriginDefault is the origin of a key that no source set.
const OriginDefault = "default"

// Loaded is a configuration that is complete and valid.
type Loaded struct {
	Config Config
	// File is the path it was read from; empty: none was named.
	File string
	// Origin says for each key where its value comes from: "default", "file config.yaml:12", "env HOLDFAST_X", "flag
	// --x", or "derived from node.address" where nothing was set. What stood there as auto has its meaning beside it:
	// "file config.yaml:3 (auto: 10.0.0.5)".
	Origin map[string]string
	// Warnings are what is allowed and seldom wise, one sentence each.
	Warnings []string

	shown    map[string]string // the text of each key whose value is or holds a reference
	referred []referred        // what the references stand for
}

// Load reads the configuration: flags before environment before file before defaults. file may be empty; then --config
// names it, or HOLDFAST_CONFIG, or there is none. flags may be nil; environ is as from os.Environ.
//
// The error joins everything that is wrong, so that a second attempt can be the last one: each line names the key, the
// allowed values, the value and where it stands.
func Load(file string, flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	if file == "" {
		file = namedFile(flags, environ)
	}
	if file == "" {
		return complete("", nil, nil, flags, environ)
	}
	data, err := readFile(file)
	if err != nil {
		return complete(file, nil, []error{err}, flags, environ)
	}
	settings, errs := parse(file, data)
	return complete(file, settings, errs, flags, environ)
}

// LoadSettings is [Load] with settings in the place of a file, of which later ones win. A file that the environment
// names is an error: two things cannot both be the configuration.
func LoadSettings(given []Setting, environ []string) (*Loaded, error) {
	var errs []error
	if file := namedFile(nil, environ); file != "" {
		errs = append(errs, fmt.Errorf("%s: must not be set, got %q: the flags are the configuration; "+
			"`holdfast run` takes a file", fileVariable, file))
	}
	return complete("", given, errs, nil, environ)
}

// complete completes settings that were read from a file or from other flags, with the errors of reading them.
func complete(file string, settings []Setting, errs []error, flags *pflag.FlagSet, environ []string) (*Loaded, error) {
	variables, warnings, unknown := readEnviron(environ)
	l := &Loaded{Config: Default(), File: file, Origin: map[string]string{}, Warnings: warnings,
		shown: map[string]string{}}
	errs = slices.Concat(errs, unknown, l.decode(merge(flags, settings, variables), environ))
	if err := l.resolveAddress(); err != nil {
		errs = append(errs, err)
	}
	derive(&l.Config, l.Origin, environ)
	errs = append(errs, l.check(errs)...)
	if len(errs) > 0 {
		return nil, Invalid(l.hideAll(errs))
	}
	for _, doubt := range doubts(l.Config) {
		l.Warnings = append(l.Warnings, l.hide(doubt))
	}
	return l, nil
}

// merge hands all sources to viper, which puts flags before the rest; of that, what is merged last wins. A value is a
// setting, so that its origin stays with it, or the text of a flag. Each key is one name to viper, not a path.
func merge(flags *pflag.FlagSet, sources ...[]Setting) *viper.Viper {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	for _, s := range slices.Concat(sources...) {
		_ = v.MergeConfigMap(map[string]any{s.Key: s}) // never fails
	}
	for _, k := range Keys() {
		if flags == nil {
			break
		}
		if f := flags.Lookup(k.Name); f != nil {
			_ = v.BindFlagValue(k.Name, asText{f}) // fails for nil only
		}
	}
	return v
}

// asText gives viper the text of a flag. By its type, viper would make false of any text that is no bool.
type asText struct{ flag *pflag.Flag }

func (f asText) HasChanged() bool    { return f.flag.Changed }
func (f asText) Name() string        { return f.flag.Name }
func (f asText) ValueString() string { return f.flag.Value.String() }
func (f asText) ValueType() string   { return "text" }

// namedFile returns the configuration file that --config or the environment names.
func namedFile(flags *pflag.FlagSet, environ []string) string {
	if flags != nil {
		if f := flags.Lookup(FileFlag); f != nil && f.Changed {
			return f.Value.String()
		}
	}
	name := ""
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, fileVariable+"="); ok {
			name = value
		}
	}
	return name
}

// decode applies what v has for each key, notes the origins, and returns what is wrong. A value that cannot be decoded
// leaves the default.
func (l *Loaded) decode(v *viper.Viper, environ []string) (errs []error) {
	for _, k := range Keys() {
		l.Origin[k.Name] = OriginDefault
		if !v.IsSet(k.Name) {
			continue
		}
		set, ok := v.Get(k.Name).(Setting)
		if !ok {
			set = Setting{k.Name, v.GetString(k.Name), "flag --" + k.Name}
		}
		l.Origin[k.Name] = set.Origin
		text, err := l.refer(k, set.Text, environ)
		if err == nil {
			err = k.decode(text, &l.Config)
		}
		if err != nil {
			errs = append(errs, l.wrong(k.Name, "%v", err))
		}
	}
	return errs
}

// check returns what each section and the sections together say is wrong. What follows from another error is left out:
// a key that could not be read has its default now, and judging that, or what is derived from a wrong key, would only
// confuse.
func (l *Loaded) check(known []error) []error {
	bad := map[string]bool{}
	source := func(key string) string { // what to change to change key
		if from, derived := strings.CutPrefix(l.Origin[key], derivedFrom); derived {
			return from
		}
		return key
	}
	for _, err := range known {
		if w, ok := errors.AsType[Wrong](err); ok {
			bad[w.Key] = true
		}
	}
	var wrong []Wrong
	l.Config.Validate(func(key, format string, args ...any) {
		if !bad[key] {
			wrong = append(wrong, l.wrong(key, format, args...))
		}
	})
	for _, w := range wrong {
		bad[w.Key] = true
	}
	var errs []error
	for _, w := range wrong {
		if source(w.Key) == w.Key || !bad[source(w.Key)] {
			errs = append(errs, w)
		}
	}
	for _, c := range contradictions(l.Config) {
		if !slices.ContainsFunc(c.keys, func(key string) bool { return bad[key] || bad[source(key)] }) {
			errs = append(errs, l.wrong(c.keys[0], "%s", c.problem))
		}
	}
	return errs
}

// Wrong is what is wrong with the value of one key.
type Wrong struct {
	Key     string // or what stands in the place of one
	Problem string // what it must be, and what it is
	Origin  string // where it stands, such as config.yaml:12; "" where nothing was set
	Hint    string // what may have been meant, or ""
}

func (w Wrong) Error() string {
	text := w.Key + ": " + w.Problem
	if w.Origin != "" {
		text += " (" + w.Origin + ")"
	}
	return text + w.Hint
}

// wrong says of a key what is wrong with its value, and where that comes from.
func (l *Loaded) wrong(key, format string, args ...any) Wrong {
	w := Wrong{Key: key, Problem: fmt.Sprintf(format, args...)}
	if origin := l.Origin[key]; origin != OriginDefault {
		w.Origin = strings.TrimPrefix(origin, "file ")
	}
	return w
}

// Invalid is all that is wrong with a configuration, each with its key or file first.
type Invalid []error

func (i Invalid) Error() string   { return errors.Join(i...).Error() }
func (i Invalid) Unwrap() []error { return i }

// Errors takes joined errors apart.
func Errors(err error) []error {
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Errors(e)...)
	}
	return all
}

// Kubernetes describes every service of a namespace in the environment of every pod: a service named holdfast is
// HOLDFAST_SERVICE_HOST, HOLDFAST_PORT_2379_TCP_ADDR and so on, and HOLDFAST_PORT=tcp://10.0.0.1:2379.
var (
	serviceName  = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// readEnviron returns the settings in the environment. A variable that is set
// to nothing counts as not set, which is how most tools write "not set".
//
// An unknown variable in one of our sections, or one letter off a known one, is an error: it may be the one that asks
// for authentication. Any other may belong to a script around us and is a warning.
func readEnviron(environ []string) (settings []Setting, warnings []string, errs []error) {
	known := map[string]Key{}
	var names []string
	for _, k := range Keys() {
		known[k.variable()] = k
		names = append(names, strings.TrimPrefix(k.variable(), VariablePrefix))
	}
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(variable, VariablePrefix)
		if !ours || variable == fileVariable || serviceName.MatchString(variable) || serviceValue.MatchString(value) {
			continue
		}
		if k, ok := known[variable]; ok {
			if value != "" {
				settings = append(settings, Setting{k.Name, value, "env " + variable})
			}
			continue
		}
		if near := nearest(name, names); near != "" {
			errs = append(errs, fmt.Errorf("%s: unknown variable, did you mean %s%s?", variable, VariablePrefix, near))
		} else if inSection(name) {
			errs = append(errs, fmt.Errorf("%s: unknown variable", variable))
		} else {
			warnings = append(warnings, variable+": unknown variable, ignored")
		}
	}
	return settings, warnings, errs
}

// inSection reports whether a variable, without its prefix, begins with the name of a section.
func inSection(name string) bool {
	return slices.ContainsFunc(Keys(), func(k Key) bool {
		section, _, _ := strings.Cut(k.Name, ".")
		return strings.HasPrefix(name, strings.ToUpper(section)+"_")
	})
}
