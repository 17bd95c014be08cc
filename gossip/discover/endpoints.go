package discover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The formats of the endpoints file.
const (
	Lines = "lines" // a client URL in each
	JSON  = "json"  // all that is known
)

// endpointsFile keeps a file that holds nothing but the endpoints.
func endpointsFile(path, format, cluster string, entries []Entry) outputFile {
	return outputFile{Path: path, edit: func(old []byte) ([]byte, string) {
		if len(entries) == 0 {
			return old, ""
		}
		if format == JSON {
			return endpointsJSON(old, cluster, entries), ""
		}
		var b bytes.Buffer
		for _, e := range entries {
			for _, u := range e.Clients {
				fmt.Fprintln(&b, u)
			}
		}
		if b.Len() == 0 {
			return old, "" // nodes of a version that does not tell its client URLs
		}
		return b.Bytes(), ""
	}}
}

// document is the endpoints file as JSON.
type document struct {
	Cluster string    `json:"cluster"`
	Updated time.Time `json:"updated"` // when anything else in it changed
	Members []Entry   `json:"members"`
}

func endpointsJSON(old []byte, cluster string, entries []Entry) []byte {
	var was document
	_ = json.Unmarshal(old, &was) // what is no document of ours has no time
	d := document{Cluster: cluster, Updated: was.Updated, Members: entries}
	if bytes.Equal(old, d.text()) {
		return old
	}
	d.Updated = time.Now().UTC().Truncate(time.Second)
	return d.text()
}

func (d document) text() []byte {
	data, _ := json.MarshalIndent(d, "", "  ") // no value of these types is without JSON
	return append(data, '\n')
}

// recallEndpoints reads the members from an endpoints file in JSON that an earlier process left.
func recallEndpoints(data []byte, cluster string) []Entry {
	var was document
	if json.Unmarshal(data, &was) != nil || was.Cluster != cluster {
		return nil
	}
	return was.Members
}
