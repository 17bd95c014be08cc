package plan

import "testing"

// TestOutlived checks which keys in the database count in the generation that began with it.
func TestOutlived(t *testing.T) {
	first := Record{ID: "one", Generation: 1}
	restored := Record{ID: "two", Generation: 2, Line: []string{"one"}, Cause: Restored}
	recovered := Record{ID: "two", Generation: 2, Line: []string{"one"}, Cause: Recovered}
	for name, tc := range map[string]struct {
		of            string
		in            *Record
		paused, locks bool
	}{
		"of this generation":             {"one", &first, true, true},
		"of a restored generation":       {"two", &restored, true, true},
		"before a restore":               {"one", &restored, false, false},
		"before a recovery":              {"one", &recovered, true, false},
		"of another cluster":             {"other", &recovered, false, false},
		"of a version that did not tell": {"", &restored, true, true},
		"the generation is not known":    {"one", nil, true, true},
	} {
		m := Member{Paused: &Pause{Record: tc.of}, Lock: &Lock{Record: tc.of}}.Within(tc.in)
		if (m.Paused != nil) != tc.paused || (m.Lock != nil) != tc.locks {
			t.Errorf("%s: got paused %v, locked %v; want %v, %v", name, m.Paused != nil, m.Lock != nil, tc.paused, tc.locks)
		}
	}
}
