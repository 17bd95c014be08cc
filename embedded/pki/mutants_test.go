package pki

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants disable the guards around an operator's certificate, and the one against a clock that is ahead. Each names the test that must fail then.
var mutants = []mutanttest.Mutant{
	{Name: "an operator signs what nodes say", File: "orders.go", Old: `case p.names.Member(leaf), operator && command:`, New: `case p.names.Member(leaf), operator:`,
		Test: "TestWhoseOrdersCount", Says: "an operator, command false: got <nil>"},
	{Name: "an operator is a member, too", File: "holder.go", Old: `|| n.operator(c) {`, New: ` {`,
		Test: "TestWhoseOrdersCount", Says: "an operator that is a member, too, command false: got <nil>"},
	{Name: "an observer is a member, too", File: "holder.go", Old: `if slices.Contains(c.DNSNames, WatchName(n.Zone)) || n.operator(c) {`, New: `if n.operator(c) {`,
		Test: "TestWhoseOrdersCount", Says: "an observer that is a member, too, command false: got <nil>"},
	{Name: "anyone with a certificate signs", File: "orders.go", Old: `	case operator:
		return nil, fmt.Errorf("it is signed with the operator's`, New: `	case !operator:
		return leaf, nil
	default:
		return nil, fmt.Errorf("it is signed with the operator's`,
		Test: "TestWhoseOrdersCount", Says: "an operator of another cluster, command (true|false): got <nil>"},
	{Name: "an operator's certificate for ever", File: "orders.go", Old: `CurrentTime: at, KeyUsages`, New: `KeyUsages`,
		Test: "TestWhoseOrdersCount", Says: "an operator, after its certificate"},
	{Name: "put what does not count", File: "orders.go", Old: `if signature, err = json.Marshal(s); err != nil || p.file == "" {`, New: `if signature, err = json.Marshal(s); err != nil || p.file != "-" {`,
		Test: "TestOrdersOfAnOperator", Says: "got <nil>"},
	{Name: "an operator's certificate serves", File: "holder.go", Old: `		p.dns = []string{OrderName(zone)}`, New: `		p.dns, p.usages = []string{OrderName(zone)}, bothUsages`,
		Test: "TestRenew", Says: "an operator's certificate serves"},
	{Name: "renew what bears more names", File: "holder.go", Old: `h.profile(zone, c.Subject.CommonName).fits(c)`, New: `slices.Contains(c.DNSNames, h.profile(zone, c.Subject.CommonName).dns[0])`,
		Test: "TestRenew", Says: "is observer"},
	{Name: "authorities begin now", File: "authority.go", Old: `	if life >= longLived {`, New: `	if life < 0 {`,
		Test: "TestClockFarAhead", Says: "then corrected"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
