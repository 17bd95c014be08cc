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
	// File is the path of the configuration file, or empty if there is none.
	File string
	// Origin has for each key where its value comes from: "default", "file config.yaml:12", "env HOLDFAST_X", "flag
	// --x", or "derived from node.address". For the value auto it includes the result: "file config.yaml:3 (auto:
	// 10.0.0.5)".
	Origin map[string]string
	// Warnings are about values that are valid, but seldom intended.
	Warnings []string

	shown    map[string]string // the text of each key whose value is or contains a reference
	referred []referred        // the references and their values
}

// Load reads the configuration. A flag overrides the environment, the environment the file, and the file the default.
// If file is empty, --config or HOLDFAST_CONFIG may name it. flags may be nil; environ has the form of os.Environ.
//
// The error is an [Invalid] with everything that is wrong. Each line names the key, the allowed values, the value and
// its origin.
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

// LoadSettings is [Load] with settings instead of a file. A later setting overrides an earlier one. If the environment
// names a file as well, that is an error.
func LoadSettings(given []Setting, environ []string) (*Loaded, error) {
	var errs []error
	if file := namedFile(nil, environ); file != "" {
		errs = append(errs, fmt.Errorf("%s: must not be set, got %q: the flags are the configuration; "+
			"`holdfast run` takes a file", fileVariable, file))
	}
	return complete("", given, errs, nil, environ)
}

// complete makes a configuration of the settings from a file or from other flags. errs are the errors of reading them.
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
	for _, doubt := range l.Config.doubts() {
		l.Warnings = append(l.Warnings, l.hide(doubt))
	}
	return l, nil
}

// merge gives all sources to viper. A flag wins over the sources, and a later source over an earlier one. A value is a
// Setting, which keeps its origin, or the text of a flag. To viper, each key is one name, not a path.
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

// asText gives viper the text of a flag. With the flag's real type, viper would turn a wrong bool into false.
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

// decode sets the values in v, notes their origins, and returns the errors. For a value that cannot be decoded, the
// default stays.
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
		if strings.HasPrefix(text, "~/") {
			err = fmt.Errorf("must not begin with ~, which only a shell knows, got %q", text)
		}
		if err != nil {
			errs = append(errs, l.wrong(k.Name, "%v", err))
		}
	}
	return errs
}

// check returns the errors in the sections and in combinations of keys. It leaves out errors that follow from another
// one: a key that could not be read has its default now, and an error about that, or about a value derived from a wrong
// key, would only confuse.
func (l *Loaded) check(known []error) []error {
	bad := map[string]bool{}
	source := func(key string) string { // the key to change in order to change key
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
	l.Config.contradictions(func(keys, format string, args ...any) {
		all := strings.Fields(keys)
		if !slices.ContainsFunc(all, func(key string) bool { return bad[key] || bad[source(key)] }) {
			errs = append(errs, l.wrong(all[0], format, args...))
		}
	})
	return errs
}

// Wrong is the error about the value of one key.
type Wrong struct {
	Key     string // or a flag or variable of another program
	Problem string // what the value must be, and what it is
	Origin  string // such as config.yaml:12; "" if nothing was set
	Hint    string // ", did you mean x?", or ""
}

func (w Wrong) Error() string {
	text := w.Key + ": " + w.Problem
	if w.Origin != "" {
		text += " (" + w.Origin + ")"
	}
	return text + w.Hint
}

// wrong returns an error about a key, with the origin of its value.
func (l *Loaded) wrong(key, format string, args ...any) Wrong {
	w := Wrong{Key: key, Problem: fmt.Sprintf(format, args...)}
	if origin := l.Origin[key]; origin != OriginDefault {
		w.Origin = strings.TrimPrefix(origin, "file ")
	}
	return w
}

// Invalid are all errors in a configuration. Each begins with its key or file.
type Invalid []error

func (i Invalid) Error() string   { return errors.Join(i...).Error() }
func (i Invalid) Unwrap() []error { return i }

// Errors returns the single errors in joined errors.
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

// Kubernetes adds variables for every service of a namespace to the environment of every pod. For a service named
// holdfast these are HOLDFAST_SERVICE_HOST, HOLDFAST_PORT_2379_TCP_ADDR and so on, and
// HOLDFAST_PORT=tcp://10.0.0.1:2379.
var (
	serviceName  = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// readEnviron returns the settings in the environment. A variable with an empty value counts as not set.
//
// An unknown variable is an error if it begins with a section's name, or is a slip of a known one: it may have been
// meant to ask for authentication. Any other may belong to a script that starts holdfast, and is a warning.
func readEnviron(environ []string) (settings []Setting, warnings []string, errs []error) {
	known := map[string]Key{}
	var names []string
	for _, k := range Keys() {
		known[Variable(k.Name)] = k
		names = append(names, strings.TrimPrefix(Variable(k.Name), VariablePrefix))
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
