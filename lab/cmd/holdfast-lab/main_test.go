package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/programme"
)

func TestMain(m *testing.M) {
	logging.Disable() // of dials to servers that a fault has killed
	if programme.Serve(catalog()) {
		return
	}
	os.Exit(m.Run())
}

// run runs the command and requires its exit code.
func run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, complaints strings.Builder
	if got := exitCode(command(t.Context(), args, &out, &complaints), &complaints); got != code {
		t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, &out, &complaints)
	}
	return out.String(), complaints.String()
}

func TestAHoleOfAnOldLock(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.html")
	out, _ := run(t, 0, "--minutes", "0.02", "--subject", "set-nx-del", "--report", report)
	for _, want := range []string{"set-nx-del/failed-attempt", "broken 1/1: overlap", "every expected hole showed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil || !strings.Contains(string(text), "set-nx-del/failed-attempt") || strings.Contains(string(text), `class="bad"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// A store of the user is not flushed or stopped, and nothing of the lab is left in it.
func TestOnAStoreOfTheUser(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	if err := rdb.Set(t.Context(), "mine", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	out, complaints := run(t, 0, "-redis", server.URL(), "-minutes", "0.05", "-virtual", "0", "-json", "-seed", "3")
	var r programme.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Live) != 1 || r.Live[0].Grants == 0 || r.Live[0].First != 3 || len(r.Scenarios) != 0 || len(r.LeftOut) != 2 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(complaints, "nothing is flushed") {
		t.Errorf("not said: %s", complaints)
	}
	if keys, err := rdb.Keys(t.Context(), "*").Result(); err != nil || len(keys) != 1 || keys[0] != "mine" {
		t.Errorf("keys %q, %v", keys, err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-redis", "rediss://127.0.0.1:1"}, exitConfig, "redis:// URLs only"},
		{[]string{"-redis", "redis://127.0.0.1:1", "-subject", "holdfast-etcd"}, exitUsage, "holdfast-etcd does not run on the Redis"},
		{[]string{"-subject", "nobody"}, exitUsage, `no subject "nobody": use one of setnx-expire`},
		{[]string{"-nonsense"}, exitUsage, "-nonsense"},
		{[]string{"nonsense"}, exitUsage, `unexpected argument "nonsense"`},
		{[]string{"replay"}, exitUsage, "replay FILE"},
		{[]string{"replay", "no-such-file"}, exitFailed, "no such file"},
		{[]string{"-help"}, 0, "-minutes"},
	} {
		if _, said := run(t, tc.code, tc.args...); !strings.Contains(said, tc.says) {
			t.Errorf("%q: no %q in %s", tc.args, tc.says, said)
		}
	}
}
