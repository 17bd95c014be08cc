package health

import (
	"encoding"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

// What programs read of the status and related types stays stable: the keys, and the kind of each value.
func TestAPI(t *testing.T) {
	var got []string
	for _, of := range []any{ClusterStatus{}, Report{}, Downgrade{}, Release{}, Takeover{}} {
		is := reflect.TypeOf(of)
		got = append(got, keysOf(is.Name(), is, nil)...)
	}
	slices.Sort(got)
	text, golden := strings.Join(got, "\n")+"\n", filepath.Join("testdata", "api.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(want), "\n") {
		if line != "" && !slices.Contains(got, line) {
			t.Errorf("is gone: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(strings.Split(string(want), "\n"), line) {
			t.Errorf("is new: %s (go test ./embedded/health -run TestAPI -update)", line)
		}
	}
}

// keysOf returns the keys below a path of the JSON of a type, each with the kind of its value, and whether it is
// omitted if empty.
func keysOf(path string, is reflect.Type, within []reflect.Type) (all []string) {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	switch {
	case is.Kind() == reflect.Pointer:
		return keysOf(path, is.Elem(), within)
	case is == reflect.TypeFor[time.Time]() || is.Implements(text):
		return []string{path + " string"}
	case is.Kind() == reflect.Slice:
		return keysOf(path+"[]", is.Elem(), within)
	case is.Kind() == reflect.Map:
		return keysOf(path+"{}", is.Elem(), within)
	case is.Kind() != reflect.Struct:
		return []string{path + " " + is.Kind().String()}
	case slices.Contains(within, is):
		return []string{path + " as above"}
	}
	for _, f := range reflect.VisibleFields(is) {
		key, when, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" || key == "" || len(f.Index) > 1 && f.Anonymous {
			continue
		}
		if when != "" {
			key += "?"
		}
		all = append(all, keysOf(path+"."+key, f.Type, append(within, is))...)
	}
	return all
}
