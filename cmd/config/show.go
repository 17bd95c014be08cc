package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes a file that loads to the same configuration, with the origins as comments.
func (l *Loaded) WriteYAML(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range Keys() {
		at, path := root, strings.Split(k.Name, ".")
		for _, section := range path[:len(path)-1] {
			at = child(at, section)
		}
		var value yaml.Node
		if err := value.Encode(l.plain(k)); err != nil {
			return fmt.Errorf("encode %s: %w", k.Name, err)
		}
		if value.Kind != yaml.ScalarNode {
			value.Style = yaml.FlowStyle
		}
		value.LineComment = "# " + l.Origin[k.Name]
		at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[len(path)-1]}, &value)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return enc.Close()
}

// child returns the mapping under name in m, and adds one if there is none.
func child(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, n)
	return n
}

// WriteJSON writes a list of all keys with their values and origins.
func (l *Loaded) WriteJSON(w io.Writer) error {
	type row struct {
		Key    string `json:"key"`
		Value  any    `json:"value"`
		Origin string `json:"origin"`
	}
	rows := []row{}
	for _, k := range Keys() {
		rows = append(rows, row{k.Name, l.plain(k), l.Origin[k.Name]})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}
