package ec2test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// controlPath is where the control interface is: POST /_control/<word> with arguments, both ways as JSON.
const controlPath = "/_control/"

// arguments are those of all words of the control interface.
type arguments struct {
	ID       string // of an instance or a volume
	State    string
	Size     int64
	Key      string
	Value    string
	Instance *Instance
	Volume   *Volume
	Fault    *Fault
}

// Dump is everything a Cloud knows.
type Dump struct {
	Volumes   map[string]*Volume
	Instances map[string]*Instance
	Counts    []Count
	Intervals []Interval
}

// Dump returns everything.
func (c *Cloud) Dump() Dump {
	s := c.State()
	return Dump{s.Volumes, s.Instances, c.Counts(), c.Intervals()}
}

// controls are the words of the control interface; what they return is answered.
var controls = map[string]func(*Cloud, arguments) (any, error){
	"add-instance": func(c *Cloud, a arguments) (any, error) {
		if a.Instance == nil {
			return nil, fmt.Errorf("an Instance is needed")
		}
		return c.AddInstance(*a.Instance)
	},
	"add-volume": func(c *Cloud, a arguments) (any, error) {
		if a.Volume == nil {
			return nil, fmt.Errorf("a Volume is needed")
		}
		return c.AddVolume(*a.Volume)
	},
	"inject": func(c *Cloud, a arguments) (any, error) {
		if a.Fault == nil {
			return nil, fmt.Errorf("a Fault is needed")
		}
		return nil, c.Inject(*a.Fault)
	},
	"clear": func(c *Cloud, _ arguments) (any, error) {
		c.Clear()
		return nil, nil
	},
	"dump":         func(c *Cloud, _ arguments) (any, error) { return c.Dump(), nil },
	"terminate":    func(c *Cloud, a arguments) (any, error) { return nil, c.TerminateInstance(a.ID) },
	"stop":         func(c *Cloud, a arguments) (any, error) { return nil, c.StopInstance(a.ID) },
	"start":        func(c *Cloud, a arguments) (any, error) { return nil, c.StartInstance(a.ID) },
	"set-state":    func(c *Cloud, a arguments) (any, error) { return nil, c.SetInstanceState(a.ID, a.State) },
	"set-tag":      func(c *Cloud, a arguments) (any, error) { return nil, c.SetTag(a.ID, a.Key, a.Value) },
	"delete-tag":   func(c *Cloud, a arguments) (any, error) { return nil, c.DeleteTag(a.ID, a.Key) },
	"grow":         func(c *Cloud, a arguments) (any, error) { return nil, c.GrowVolume(a.ID, a.Size) },
	"force-detach": func(c *Cloud, a arguments) (any, error) { return nil, c.ForceDetach(a.ID) },
	"yank":         func(c *Cloud, a arguments) (any, error) { return nil, c.Yank(a.ID) },
	"freeze":       func(c *Cloud, a arguments) (any, error) { return nil, c.Freeze(a.ID) },
	"thaw":         func(c *Cloud, a arguments) (any, error) { return nil, c.Thaw(a.ID) },
}

// control answers a request of a Client. An error is answered as its text.
func (c *Cloud) control(w http.ResponseWriter, r *http.Request) {
	do := controls[strings.TrimPrefix(r.URL.Path, controlPath)]
	if do == nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	var a arguments
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := do(c, a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result)
}
