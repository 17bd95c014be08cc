package plan

import (
	"encoding/json"
	"testing"
)

// The ID of a member is hexadecimal in a status, as etcdctl prints it.
func TestID(t *testing.T) {
	alarm := Alarm{Corrupt, 0x8e9e05c52164694d}
	text, err := json.Marshal(alarm)
	if want := `{"name":"CORRUPT","member":"8e9e05c52164694d"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	var got Alarm
	if err := json.Unmarshal(text, &got); err != nil || got != alarm {
		t.Errorf("read again: got %+v, %v", got, err)
	}
	if got, want := alarm.String(), "CORRUPT of member 8e9e05c52164694d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := json.Unmarshal([]byte(`{"member": "x"}`), &got); err == nil {
		t.Error("x is an ID")
	}
}
