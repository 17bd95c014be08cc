package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// newConfigCommand returns `holdfast config`.
func newConfigCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print, check and explain the configuration",
		Long: "Print, check and explain the configuration.\n\n" +
			"A key has one name everywhere: gossip.seeds is `gossip: {seeds: [...]}` in the file, --gossip.seeds as a\n" +
			"flag and HOLDFAST_GOSSIP_SEEDS in the environment. A flag goes before the environment, the environment\n" +
			"before the file, the file before the default.",
	}
	addConfigFlags(c.PersistentFlags())
	return group(c, newConfigDefaultCommand(), newConfigCheckCommand(), newConfigShowCommand())
}

func newConfigDefaultCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "default",
		Short: "Print the default configuration file, with what each key means",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), defaultYAML)
			return err
		},
	}
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report everything that is wrong with the configuration, or that all is well",
		Long: "Report everything that is wrong with the configuration, or that all is well.\n\n" +
			"Judged is what `holdfast run` would get: FILE (or --config) together with flags and environment, on this host,\n" +
			"with the files and directories that it names. What run refuses before it begins is refused here in the same\n" +
			"words. Run it as the user that the node is. Exit code: 0, or 64 if something is wrong.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := Load(strings.Join(args, ""), c.Flags(), os.Environ())
			if err == nil {
				err = refused(l)
			}
			if err != nil {
				return fmt.Errorf("check configuration: %d wrong\n%w", len(flatten(err)), err)
			}
			subject := l.File
			if subject == "" {
				subject = "configuration"
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s: ok\n", subject)
			for _, w := range l.Warnings {
				fmt.Fprintf(out, "warning: %s\n", w)
			}
			return nil
		},
	}
}

func newConfigShowCommand() *cobra.Command {
	format := "table"
	c := &cobra.Command{
		Use:   "show",
		Short: "Print each key with its effective value and where that comes from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			write, ok := map[string]func(*Loaded, io.Writer) error{
				"table": writeTable, "yaml": writeYAML, "json": writeJSON,
			}[format]
			if !ok {
				return oneOf(format, "table", "yaml", "json")
			}
			l, err := Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return write(l, c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&format, "output", "o", format, "`format`: table, yaml or json")
	return c
}

func writeTable(l *Loaded, w io.Writer) error {
	t := newTable("key", "value", "origin")
	for _, k := range configKeys() {
		t.AppendRow(table.Row{k.name, l.text(k), l.Origin[k.name]})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// writeYAML writes a file that loads to the same configuration, with the
// origins as comments.
func writeYAML(l *Loaded, w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range configKeys() {
		at, path := root, strings.Split(k.name, ".")
		for _, section := range path[:len(path)-1] {
			at = child(at, section)
		}
		var value yaml.Node
		if err := value.Encode(l.plain(k)); err != nil {
			return fmt.Errorf("encode %s: %w", k.name, err)
		}
		if value.Kind != yaml.ScalarNode {
			value.Style = yaml.FlowStyle
		}
		value.LineComment = "# " + l.Origin[k.name]
		at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[len(path)-1]}, &value)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return enc.Close()
}

// child returns the mapping under name in m, adding it where there is none.
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

func writeJSON(l *Loaded, w io.Writer) error {
	type row struct {
		Key    string `json:"key"`
		Value  any    `json:"value"`
		Origin string `json:"origin"`
	}
	rows := []row{}
	for _, k := range configKeys() {
		rows = append(rows, row{k.name, l.plain(k), l.Origin[k.name]})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

// plain returns k's value in c as YAML and JSON should show it: durations as
// text, lists and maps never as null.
func (k key) plain(c *Config) any {
	v := k.value(c)
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return k.text(c)
	case v.Kind() == reflect.Slice && v.IsNil():
		return []string{}
	case v.Kind() == reflect.Map && v.IsNil():
		return map[string]bool{}
	default:
		return v.Interface()
	}
}
