package plan

import "testing"

func TestMinor(t *testing.T) {
	for version, want := range map[string]string{"3.7.3": "3.7", "v3.6": "3.6", "3.10.0-rc.1": "3.10", "3": "", "": "", "x.7.3": "", "3.x": "", "-3.7": ""} {
		m, known := MinorOf(version)
		if known != (want != "") || known && m.String() != want {
			t.Errorf("%q: got %s, %t, want %q", version, m, known, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{{"3.6.16", "3.7.0", true}, {"3.7.0", "3.7.3", false}, {"3.7.3", "3.10.0", true}, {"3.7.3", "4.0.0", true}, {"4.0.0", "3.7.3", false}, {"", "3.7.3", false}, {"3.7.3", "?", false}} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("%s older than %s: got %t", c.a, c.b, got)
		}
	}
}
