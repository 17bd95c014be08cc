package plan

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// vocabulary is what is drawn for the text fields of each type, so that values coincide; some words are invalid in any
// field.
var vocabulary = map[reflect.Type][]string{
	reflect.TypeFor[Cause]():   {"", string(Founding), string(Restored), string(Recovered), string(Adopted), "x"},
	reflect.TypeFor[Program](): {"", string(EtcdManager), string(PlainEtcd)},
	reflect.TypeFor[Phase]():   {"", string(PhaseWaiting), string(PhaseBlank), string(PhaseFounder), string(PhaseJoiner), string(PhaseVacant), string(PhaseData), "x"},
	reflect.TypeFor[Role]():    {"", string(RoleFounder), string(RoleJoiner), string(RoleReplacement), "x"},
	reflect.TypeFor[string]():  {"", "", "a", "b", "c", "d1", "n1", "n2", "S", "3.7.3", NoSpace, Corrupt},
}

// wild fills a value of any type, valid or not. It also fills fields that are added later.
func wild(r *rand.Rand, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]() || !v.CanSet():
		return
	case v.Kind() != reflect.Struct && r.IntN(4) == 0:
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		wild(r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			wild(r, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 3))
		for i := range v.Len() {
			wild(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		wild(r, key)
		wild(r, value)
		v.SetMapIndex(key, value)
	case reflect.String:
		all := vocabulary[v.Type()]
		v.SetString(all[r.IntN(len(all))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint64:
		v.SetUint([]uint64{0, 1, 2, 3, 1<<64 - 1}[r.IntN(5)])
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{-1 << 63, -1, 0, 1, 2, 1<<63 - 1}[r.IntN(6)])
	default:
		panic("no way to draw a " + v.Type().String())
	}
}

// parts are all settable values within a value.
func parts(v reflect.Value, to []reflect.Value) []reflect.Value {
	if !v.CanSet() || v.Type() == reflect.TypeFor[time.Time]() {
		return to
	}
	to = append(to, v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			to = parts(v.Elem(), to)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			to = parts(v.Field(i), to)
		}
	case reflect.Slice:
		for i := range v.Len() {
			to = parts(v.Index(i), to)
		}
	}
	return to
}

// damage changes a few parts of a value: to anything, to the zero value, or to another part of the same type.
func damage(r *rand.Rand, v reflect.Value) {
	for range 1 + r.IntN(4) {
		all := parts(v, nil)
		p := all[r.IntN(len(all))]
		switch r.IntN(3) {
		case 0:
			p.SetZero()
		case 1:
			wild(r, p)
		default:
			for range 64 {
				if q := all[r.IntN(len(all))]; q.Type() == p.Type() {
					p.Set(q)
					break
				}
			}
		}
	}
}

// clone copies a value deeply.
func clone[T any](t *testing.T, v T) (c T) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tales are the observations of all stories.
func tales(t *testing.T) (all []Observation) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := reader{charters: map[string]Charter{}, restores: map[string]Restore{}}
		for _, paragraph := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
			told, _, _ := strings.Cut(paragraph+"\n", "----\n")
			o, err := r.read(told)
			if err != nil {
				t.Fatalf("%v in %q", err, paragraph)
			}
			all = append(all, o)
		}
	}
	return all
}

// askEverything asks all possible questions of an observation.
func askEverything(o Observation) {
	facts := o.Facts([]uint64{1})
	a := Next(o)
	o.Disk.Ledger.After(a, o.Claim.Disk)
	Resumed(o)
	Object(o)
	Holders(o)
	Serving(o.Peers, Servers{Record: o.Disk.Ledger.Record, Members: o.Member.Members})
	o.Conflicts()
	o.Slots()
	o.Disagreement()
	o.Founders(o.Store.Record)
	o.Haste()
	o.Deserted()
	o.Permit()
	answers := map[string]Answer{}
	for i, node := range new(Contest).Whom(&o) {
		answers[node] = Answer{Facts: &facts, Gone: i == 1, Deaf: i == 2}
	}
	new(Contest).Obstacle(o, answers)
	for _, seen := range [][]MemberInfo{nil, facts.Seen(), o.Member.Members} {
		o.Disruption(seen)
		o.Hindrance(seen)
		o.Unready(seen)
	}
	askSurvey(o.Survey())
	o.Config.Upkeep.Judge(o.Member.Judgement, o.Member, true)
	for _, r := range []*Record{o.Disk.Ledger.Record, o.Store.Record} {
		if r != nil {
			r.Peers()
			r.Token()
			r.Floor()
		}
	}
	if p := o.Store.Restore; p != nil {
		p.Parent()
		p.Source()
	}
}

func askSurvey(s Survey) {
	for _, survivor := range []string{"", "a", "x"} {
		s.Choose([]string{"b"}, survivor)
		s.Declare(nil, survivor)
	}
}

// survives shows the value on which something panicked, and its seed.
func survives(t *testing.T, seed uint64, v any, ask func()) {
	defer func() {
		if r := recover(); r != nil {
			data, _ := json.Marshal(v)
			t.Logf("seed %d: %s", seed, data)
			panic(r)
		}
	}()
	ask()
}

// TestNothingPanics: every question is answered for any observation, valid or not (R20).
func TestNothingPanics(t *testing.T) {
	seeds := uint64(60_000)
	if testing.Short() {
		seeds = 6_000
	}
	stories := tales(t)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 20))
		var o Observation
		if seed%4 > 0 {
			o = clone(t, stories[r.IntN(len(stories))])
			damage(r, reflect.ValueOf(&o).Elem())
		} else {
			wild(r, reflect.ValueOf(&o).Elem())
		}
		survives(t, seed, o, func() { askEverything(o) })
		var s Survey
		wild(r, reflect.ValueOf(&s.Slots).Elem())
		survives(t, seed, s, func() { askSurvey(s) })
	}
}

// checkWhole: what a node announces, notes and finds in the store is always valid. It is checked from time to time.
func (w *world) checkWhole(o Observation, f Facts) {
	if w.clock%32 != 0 {
		return
	}
	err := cmp.Or(within("facts", f.Valid()), within("ledger", o.Disk.Ledger.Valid()), within("store", o.Store.Valid()))
	if err != nil {
		w.fail("R20: what %s knows is not whole: %v", o.Node, err)
	}
}
