package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

func newGossipForgetCommand() *cobra.Command {
	var output string
	var dryRun bool
	c := &cobra.Command{
		Use:   "forget NODE",
		Short: "Have all nodes forget a lost node, and what it knew",
		Long: "Have all nodes forget a lost node, and what it knew. All live nodes are told at once, and those that are\n" +
			"away when they come back. Right when the node is gone for good, or was never one of this cluster. Nothing\n" +
			"on any disk is touched. Only what is known now is forgotten: a node that comes back counts again at once.\n\n" +
			"A lost node may be the only witness of a cluster. Once it is forgotten, blank disks may found a new cluster\n" +
			"if no other node, disk or store knows the old one.\n\n" +
			"It is refused for a node that is live, and for one that is not known. Exit code: 0 all live nodes have\n" +
			"forgotten it, 1 it was refused, or a live node did not confirm.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf(output, "text", "json"); err != nil {
				return err
			}
			_, client, err := loadClient(c)
			if err != nil {
				return err
			}
			var r gossip.Forgetting
			q := url.Values{"node": {args[0]}, "dry": {fmt.Sprint(dryRun)}}
			if err := client.Get(c.Context(), http.MethodPost, "/gossip/forget?"+q.Encode(), &r); err != nil {
				return fmt.Errorf("forget %s: %w", args[0], err)
			}
			if output == "json" {
				err = show.JSON(c.OutOrStdout(), r)
			} else {
				err = writeForgotten(c.OutOrStdout(), r)
			}
			if err == nil && !dryRun && len(r.Untold) > 0 {
				return fmt.Errorf("forget %s: %s did not confirm: give the command again",
					args[0], strings.Join(slices.Sorted(maps.Keys(r.Untold)), ", "))
			}
			return err
		},
	}
	addClientFlags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "text", "`format`: text or json")
	addDryRun(c.Flags(), &dryRun)
	return c
}

// forgetReport is the answer to POST /gossip/forget.
type forgetReport struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // lost, as the asked node knows
	Dry   bool      `json:"dry,omitempty"`
	// Slot, Disk and Record are what the node was the witness of; Record is a token.
	Slot   string `json:"slot,omitempty"`
	Disk   string `json:"disk,omitempty"`
	Record string `json:"record,omitempty"`
	// Told are the nodes that have forgotten it, or with Dry would; Untold those that did not confirm, and why.
	Told   []string          `json:"told"`
	Untold map[string]string `json:"untold,omitempty"`
}

// forgetOrder has a node forget another.
type forgetOrder struct {
	gossip.Forgotten
	Dry bool `json:"dry,omitempty"`
}

// forgetting has all live nodes forget a lost one.
type forgetting struct {
	self  string
	nodes []gossip.Node // live ones, and those lost that are not forgotten
	lost  []gossip.Node // also those that time has had forgotten here
	ask   func(ctx context.Context, node string, o forgetOrder) (gossip.ForgetAnswer, error)
}

// run asks all live nodes first whether they would, and has none of them forget if one hears the node.
func (f forgetting) run(ctx context.Context, name string, dry bool) (forgetReport, error) {
	lost, err := f.find(name)
	if err != nil {
		return forgetReport{}, err
	}
	r := forgetReport{Node: name, Since: lost.Since, Dry: dry}
	var facts plan.Facts
	if json.Unmarshal(lost.State, &facts) == nil {
		r.Slot, r.Disk = facts.Slot, facts.Disk
		if facts.Record != nil {
			r.Record = facts.Record.Token()
		}
	}
	order := forgetOrder{Forgotten: gossip.Forgotten{Node: name, Boot: lost.Boot, Seq: lost.Seq}, Dry: true}
	rounds := []bool{true, false}
	if dry {
		rounds = rounds[:1]
	}
	for _, order.Dry = range rounds {
		r.Told, r.Untold = []string{}, map[string]string{}
		for _, n := range f.nodes {
			if !n.Live {
				continue
			}
			a, err := f.ask(ctx, n.Node, order)
			if err == nil && a.Refused() {
				err = refusal(name, n.Node, a)
				if order.Dry {
					return r, fmt.Errorf("nothing was changed: %w", err)
				}
			}
			if err != nil {
				r.Untold[n.Node] = err.Error()
				continue
			}
			r.Told = append(r.Told, n.Node)
		}
	}
	return r, nil
}

func refusal(name, by string, a gossip.ForgetAnswer) error {
	if a.Live {
		return fmt.Errorf("node %s hears %s, which is live: stop %s first", by, name, name)
	}
	return fmt.Errorf("node %s has heard more of %s than this one: give the command again in some seconds", by, name)
}

// find returns the lost node with this name, or says why there is none.
func (f forgetting) find(name string) (gossip.Node, error) {
	var names []string
	for _, n := range f.lost {
		if n.Node == name && name != f.self {
			return n, nil
		}
		names = append(names, n.Node)
	}
	known := "no node is lost"
	if len(names) > 0 {
		known = "lost are " + strings.Join(names, ", ")
	}
	switch {
	case name == f.self:
		return gossip.Node{}, fmt.Errorf("%s is the node that was asked: stop it, and ask another node to forget it", name)
	case slices.ContainsFunc(f.nodes, func(n gossip.Node) bool { return n.Node == name }):
		return gossip.Node{}, fmt.Errorf("%s is live: stop it first; a node that runs would be known again at once", name)
	}
	return gossip.Node{}, fmt.Errorf("no node %q is known; %s", name, known)
}

// askToForget begins the question that is an order to forget a node.
const askToForget = "gossip-forget "

// answerForget forgets a node here.
func (n *process) answerForget(question []byte) (answer []byte, ok bool, err error) {
	body, ok := bytes.CutPrefix(question, []byte(askToForget))
	if !ok {
		return nil, false, nil
	}
	var o forgetOrder
	if err := json.Unmarshal(body, &o); err != nil || o.Node == "" {
		return nil, true, errors.Join(errors.New("read an order to forget a node: it names none"), err)
	}
	a := n.mesh.Forget(o.Forgotten, o.Dry)
	if !o.Dry {
		n.lg.Info("ordered to forget a lost node",
			zap.String("node", o.Node), zap.Bool("live", a.Live), zap.Bool("later", a.Later))
	}
	answer, err = json.Marshal(a)
	return answer, true, err
}

// orderForget has a node forget another.
func (n *process) orderForget(ctx context.Context, node string, o forgetOrder) (a gossip.ForgetAnswer, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return a, err
	}
	data, err := n.mesh.Ask(ctx, node, append([]byte(askToForget), body...))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("read the answer of %s: %w", node, err)
	}
	return a, nil
}

func (n *process) controlGossipForget(w http.ResponseWriter, r *http.Request) {
	// Whoever has asked may go away: what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), rotationTime)
	defer cancel()
	f := forgetting{self: n.cfg.Node.Name, nodes: n.mesh.Nodes(), lost: n.mesh.Lost(), ask: n.orderForget}
	report, err := f.run(ctx, r.FormValue("node"), control.Dry(r))
	control.Reply(w, report, err)
}

// writeForgotten says which nodes have forgotten which, and what that one knew.
func writeForgotten(w io.Writer, r gossip.Forgetting) error {
	verb := "forgot"
	if r.Dry {
		verb = "would forget"
	}
	var b strings.Builder
	since := r.Since.UTC().Format(time.RFC3339)
	fmt.Fprintf(&b, "%s %s, lost since %s, on %s\n", verb, r.Node, since, strings.Join(r.Told, ", "))
	for _, node := range slices.Sorted(maps.Keys(r.Untold)) {
		fmt.Fprintf(&b, "not confirmed by %s: %s\n", node, r.Untold[node])
	}
	if r.Slot != "" {
		fmt.Fprintf(&b, "what it held: slot %s, disk %s\n", r.Slot, r.Disk)
	}
	if r.Record != "" {
		fmt.Fprintf(&b, "what it knew: the cluster %s\n", r.Record)
		fmt.Fprintln(&b, "if no other node, disk or store knows that cluster, blank disks may found a new one")
	}
	if r.Dry {
		fmt.Fprintln(&b, "nothing was changed (--dry-run)")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
