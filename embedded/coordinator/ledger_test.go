package coordinator

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

func record(slots ...string) plan.Record {
	c := plan.Charter{Cluster: "test", Generation: 1, PeerURL: "http://{slot}.test:2380"}
	for _, s := range slots {
		c.Seats = append(c.Seats, plan.Seat{Slot: s, Disk: "disk-" + s, Epoch: 1})
	}
	return plan.FoundingRecord(c)
}

func TestLedgerRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if _, found, err := readLedger(dir); found || err != nil {
		t.Fatalf("an absent ledger: got found %v, error %v", found, err)
	}
	r := record("a", "b")
	want := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{
		Promises: []plan.Charter{r.Charter}, Record: &r, Role: plan.RoleJoiner, Join: 1<<63 + 7, Started: "disk-a",
	}}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, found, err := readLedger(dir)
	if err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, found %v, error %v; want %+v", got, found, err, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("files beside the ledger: got %v", entries)
	}

	// An older holdfast would start this member without TLS.
	want.Secured = &plan.Secured{PeerURL: "https://{slot}.x:2381"}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	if got, _, err = readLedger(dir); err != nil || got.Version != 2 || !reflect.DeepEqual(got.Secured, want.Secured) {
		t.Errorf("got %+v, error %v; want version 2 with %+v", got, err, want.Secured)
	}
}

func TestLedgerThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"torn":          {`{"version":1,"promi`, "unexpected end of JSON"},
		"empty":         {``, "unexpected end of JSON"},
		"newer version": {`{"version":3}`, "has version 3, this program knows 2: a newer holdfast wrote it"},
		"newer types":   {`{"version":3,"role":{}}`, "run that version here, or a newer one"},
		"no version":    {`{}`, "has version 0, this program knows 2;"},
		"newer record":  {`{"version":1,"role":"founder","record":{"cause":"merged"}}`, "record.cause: got \"merged\": a newer holdfast wrote it"},
		"no record":     {`{"version":1,"started":"d1"}`, "founding ledger is invalid: record: must be there"},
		"what crashed":  {`{"version":1,"role":"founder","record":{"cluster":"c","id":"0000000000000001","line":["0000000000000000"],"generation":2,"cause":"recover","charter":{"cluster":"c","generation":2,"peer_url":"x","seats":[{"slot":"a"}]}}}`, "record.restore: must be there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, found, err := readLedger(dir)
			if l.Record != nil || l.Started != "" {
				t.Errorf("got %+v, want nothing of it", l)
			}
			if !found || err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "holdfast volume set-aside") {
				t.Errorf("got found %v, error %v; want one with %q and what to do", found, err, tc.want)
			}
		})
	}
}

func TestLedgerWriteFailsLoudly(t *testing.T) {
	err := ledgerV1{Version: 1}.write(filepath.Join(t.TempDir(), "gone"))
	if err == nil || !strings.Contains(err.Error(), ledgerFile) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestAddresses(t *testing.T) {
	dir := t.TempDir()
	want := map[string]netip.Addr{"a": netip.MustParseAddr("127.0.0.1"), "b": netip.MustParseAddr("fd00::1")}
	if err := writeAddresses(dir, want); err != nil {
		t.Fatal(err)
	}
	if got := readAddresses(dir); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.WriteFile(filepath.Join(dir, addressesFile), []byte(`{"a":"nonsense"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readAddresses(dir); len(got) != 0 {
		t.Errorf("of a damaged file: got %v, want none", got)
	}
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"version":1,"promises":[{"cluster":"c","generation":1,"seats":[{"slot":"a","disk":"d","epoch":1}]}],"role":"founder"}`))
	f.Add([]byte(`{"version":1,"record":null,"join":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := decodeLedger(data)
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := l.write(dir); err != nil {
			t.Fatal(err)
		}
		again, _, err := readLedger(dir)
		if err != nil {
			t.Fatalf("a ledger that was accepted cannot be read again: %v", err)
		}
		if err := again.write(dir); err != nil {
			t.Fatal(err)
		}
	})
}
