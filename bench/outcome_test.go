package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// madeUp returns a table with known rounds.
func madeUp(scenario, label string, rows map[string][]float64, m metric) table {
	t := table{Scenario: scenario, Case: label, Title: "made up", Columns: []metric{m}}
	for name, rounds := range rows {
		r := row{Contender: name, Role: peer}
		if strings.HasPrefix(name, "holdfast") {
			r.Role = ours
		}
		for _, x := range rounds {
			r.rounds = append(r.rounds, figures{m: x})
		}
		r.summarize()
		t.Rows = append(t.Rows, r)
	}
	slices.SortFunc(t.Rows, func(a, b row) int { return strings.Compare(a.Contender, b.Contender) })
	return t
}

func TestBarsCompareRoundByRound(t *testing.T) {
	// The machine is twice as fast in the second round: the ratio stays.
	tables := []table{
		madeUp("hot", "", map[string][]float64{"holdfast": {20, 40, 60}, "a": {1, 2, 3}, "b": {2, 4, 6}}, rate),
		madeUp("growth", "2", map[string][]float64{"holdfast": {10, 10, 10}}, serverCPU),
		madeUp("growth", "512", map[string][]float64{"holdfast": {12, 15, 18}, "a": {7, 7, 7}}, serverCPU),
	}
	for _, c := range []struct {
		bar  bar
		want float64
		met  bool
		says string
	}{
		{bar{"hot", "", "holdfast", rate, against{bestPeer: true}, atLeast, 10}, 10, true, "the best peer (b)"},
		{bar{"hot", "", "holdfast", rate, against{row: "a"}, atLeast, 25}, 20, false, "≥ 25 × a"},
		{bar{"hot", "", "holdfast", rate, against{minus: "a"}, atMost, 38}, 38, true, "beyond a, ≤ 38"},
		{bar{"hot", "", "holdfast", rate, against{}, atMost, 39}, 40, false, "turns/s ≤ 39"},
		{bar{"growth", "512", "holdfast", serverCPU, against{label: "2"}, atMost, 1.3}, 1.5, false, "that of 2"},
		{bar{"growth", "512", "holdfast", serverCPU, against{bestPeer: true}, atMost, 3}, 15.0 / 7, true, "(a)"},
	} {
		got := judge([]bar{c.bar}, tables)
		if len(got) != 1 || got[0].Measured != c.want || got[0].Met != c.met || !strings.Contains(got[0].Bar, c.says) {
			t.Errorf("%+v: %+v, want %v, met %v, %q", c.bar, got, c.want, c.met, c.says)
		}
	}
}

// TestABarWithoutFigureIsMissed: all slices may have failed.
func TestABarWithoutFigureIsMissed(t *testing.T) {
	tab := madeUp("stores-pair", "etcd", map[string][]float64{"a": {1}}, pairTime)
	failed := row{Contender: "holdfast", Role: ours, rounds: []figures{nil}}
	failed.summarize()
	tab.Rows = append(tab.Rows, failed)
	got := judge([]bar{{"stores-pair", "etcd", "holdfast", pairTime, against{row: "a"}, atMost, 1.2}}, []table{tab})
	if len(got) != 1 || got[0].Met {
		t.Errorf("%+v", got)
	}
	whole := madeUp("stores-pair", "etcd", map[string][]float64{"holdfast": {1}, "never measured": {}}, pairTime)
	for _, other := range []against{{row: "never measured"}, {minus: "never measured"}, {bestPeer: true}} {
		got := judge([]bar{{"stores-pair", "etcd", "holdfast", pairTime, other, atMost, 12}}, []table{whole})
		if len(got) != 1 || got[0].Met {
			t.Errorf("%+v: %+v", other, got)
		}
	}
	alone := madeUp("stores-pair", "SQLite", map[string][]float64{"holdfast": {1}}, pairTime)
	for _, b := range []bar{
		{"stores-pair", "SQLite", "never run", pairTime, against{}, atMost, 1},
		{"stores-pair", "SQLite", "holdfast", pairTime, against{row: "never run"}, atMost, 1},
		{"stores-pair", "SQLite", "holdfast", pairTime, against{minus: "never run"}, atMost, 1},
		{"stores-pair", "SQLite", "holdfast", pairTime, against{label: "never run"}, atMost, 1},
		{"stores-pair", "etcd", "holdfast", pairTime, against{}, atMost, 1},
		{"stores-pair", "etcd", "holdfast", pairTime, against{label: "SQLite"}, atMost, 1},
	} {
		got := judge([]bar{b}, []table{alone})
		var printed, written bytes.Buffer
		printBars(&printed, got)
		barsTable(&written, got)
		if !strings.Contains(printed.String(), "not measured  MISSED\n") || !strings.Contains(written.String(), "| not measured | **missed** |\n") {
			t.Errorf("%+v:\n%s%s", b, &printed, &written)
		}
	}
	var b bytes.Buffer
	if tab.markdown(&b); !strings.Contains(b.String(), "| **holdfast** | – |") {
		t.Error(b.String())
	}
}

// TestWhatEndsARun: two holders of Holdfast always do.
func TestWhatEndsARun(t *testing.T) {
	slow, two := errors.New("slow"), fmt.Errorf("x: %w", errTwoHolders)
	for _, c := range []struct {
		scenario string
		as       role
		err      error
		want     bool
	}{
		{"hot", ours, slow, true}, {"hot", ours, two, true}, {"hot", peer, two, false},
		{"stores-waiters", ours, slow, false}, {"stores-waiters", ours, two, true}, {"stores-waiters", floor, slow, false},
	} {
		if got := (scenario{name: c.scenario}).ends(contender{role: c.as}, c.err); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestMissedBarsAreSaid: the report lists them, and finish counts them for -strict.
func TestMissedBarsAreSaid(t *testing.T) {
	all := bars()
	i := slices.IndexFunc(all, func(b bar) bool { return b.scenario == "scripts" && b.label == "shared" })
	b := all[i]
	for word, figure := range map[string]float64{"met": b.limit, "MISSED": b.limit + 0.01} {
		o := outcome{Tables: []table{madeUp(b.scenario, b.label, map[string][]float64{b.contender: {figure}, b.against.row: {1}}, b.metric)}}
		var printed bytes.Buffer
		missed, err := o.finish(flags{only: "scripts"}, &printed)
		others := len(o.Bars) - 1 // not measured
		if err != nil || (missed == others+1) != (word == "MISSED") || missed < others {
			t.Errorf("%g: %d missed, %v", figure, missed, err)
		}
		if !regexp.MustCompile(`scripts +shared +.* +` + digits(figure) + ` +` + word + `\n`).MatchString(printed.String()) {
			t.Errorf("%g: the report has no %q:\n%s", figure, word, &printed)
		}
	}
}

// TestARunMissesTheBarsItWasAskedFor: all of them, if it measures nothing.
func TestARunMissesTheBarsItWasAskedFor(t *testing.T) {
	count := func(has func(bar) bool) (n int) {
		for _, b := range bars() {
			if has(b) {
				n++
			}
		}
		return n
	}
	etcd := func(b bar) bool { return strings.HasSuffix(b.contender, " on etcd") }
	for _, c := range []struct {
		f   flags
		has func(bar) bool
	}{
		{flags{}, func(bar) bool { return true }},
		{flags{only: "hot,kill"}, func(b bar) bool { return b.scenario == "hot" || b.scenario == "kill" }},
		{flags{only: "stores"}, func(b bar) bool { return ofStores(b.scenario) }},
		{flags{only: "stores", stores: "Redis;etcd"}, etcd},
		{flags{only: "hot,stores-pair", stores: "etcd"}, func(b bar) bool { return b.scenario == "hot" || b.scenario == "stores-pair" && etcd(b) }},
		{flags{stores: "etcd"}, func(b bar) bool { return !ofStores(b.scenario) || etcd(b) }},
	} {
		var o outcome
		missed, err := o.finish(c.f, new(bytes.Buffer))
		want := count(c.has)
		if err != nil || want == 0 || missed != want || slices.ContainsFunc(o.Bars, func(v verdict) bool { return !v.Missing }) {
			t.Errorf("%+v: %d missed of %d, want %d, %v", c.f, missed, len(o.Bars), want, err)
		}
	}
}

// TestEveryBarHasItsTable: a bar with a misspelled scenario, contender or metric would
// always be missed.
func TestEveryBarHasItsTable(t *testing.T) {
	all := scenarios(fullProgram())
	for _, b := range bars() {
		found := false
		for _, sc := range all {
			for _, v := range sc.cases {
				if sc.name != b.scenario || v.label != b.label {
					continue
				}
				found = slices.Contains(v.contenders, b.contender) && slices.Contains(sc.columns, b.metric)
				for _, other := range []string{b.against.row, b.against.minus} {
					found = found && (other == "" || slices.Contains(v.contenders, other))
				}
			}
		}
		if !found {
			t.Errorf("no figure for %+v", b)
		}
	}
}

func TestFilesOfAnOutcome(t *testing.T) {
	o := outcome{About: about{Date: "2026-11-20", Redis: "7.0.15"}}
	for _, sc := range scenarios(fullProgram()) {
		if !slices.Contains([]string{"hot", "growth", "idle"}, sc.name) {
			continue // plotted in the same way, and it takes time
		}
		for _, v := range sc.cases[:min(2, len(sc.cases))] {
			tab := table{Scenario: sc.name, Case: v.label, Title: sc.title, Columns: sc.columns}
			for i, name := range v.contenders {
				r := row{Contender: name, Role: peer}
				f := figures{}
				for k, m := range slices.Concat(sc.columns, panels(sc.name)) {
					f[m] = float64(i * k * k * k)
				}
				r.rounds = []figures{f}
				r.summarize()
				tab.Rows = append(tab.Rows, r)
			}
			o.Tables = append(o.Tables, tab)
		}
	}
	dir := t.TempDir()
	f := flags{json: filepath.Join(dir, "o.json"), out: filepath.Join(dir, "out")}
	text := filepath.Join(f.out, "results.md")
	if _, err := o.finish(f, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.json)
	if err != nil {
		t.Fatal(err)
	}
	var again outcome
	if err := json.Unmarshal(b, &again); err != nil || len(again.Tables) != len(o.Tables) {
		t.Fatalf("%d tables of %d, %v", len(again.Tables), len(o.Tables), err)
	}
	drawn, err := filepath.Glob(filepath.Join(f.out, "*.svg"))
	if err != nil || len(drawn) != 4 {
		t.Fatalf("%d charts: %v, %v", len(drawn), drawn, err)
	}
	first, err := os.ReadFile(text)
	if err != nil || !bytes.Contains(first, []byte("| **holdfast** |")) && !bytes.Contains(first, []byte("| holdfast |")) {
		t.Fatalf("%v\n%s", err, first)
	}
	// The JSON alone gives the same text.
	if err := redraw(flags{from: f.json, out: f.out}); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(text)
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("the text from the JSON differs: %v", err)
	}
}

func TestCoresAreSplitAlikeForAll(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want string
	}{
		{[]int{0}, "server and clients on any CPU"},
		{[]int{0, 1}, "server on CPU 1, all clients on CPU 0"},
		{[]int{2, 3, 5}, "server on CPU 5, all clients on CPU 2,3"},
	} {
		if got := splitCores(parseList(list(c.cpus))).String(); got != c.want {
			t.Errorf("%v: %q, want %q", c.cpus, got, c.want)
		}
	}
}

// TestEveryScenarioHasItsPlaceInTheDocs also checks that fillDocs writes there.
func TestEveryScenarioHasItsPlaceInTheDocs(t *testing.T) {
	fillsDocument(t, "../docs/PERFORMANCE.md", []string{"about", "bars"}, func(name string) bool { return !ofStores(name) })
	fillsDocument(t, "../docs/STORES.md", []string{"about", "bars of stores", "stores"}, ofStores)
}

func fillsDocument(t *testing.T, docs string, names []string, has func(scenario string) bool) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(scenarios(fullProgram()), func(sc scenario) bool { return !has(sc.name) })
	o := outcome{About: about{Redis: "0.0.0"}}
	for _, sc := range all {
		names = append(names, sc.name)
		o.Tables = append(o.Tables, table{Scenario: sc.name, Case: "written " + sc.name, Columns: sc.columns})
	}
	for _, name := range names {
		if !bytes.Contains(text, []byte("<!-- bench: "+name+" -->\n")) {
			t.Errorf("%s has no slot for %q", docs, name)
		}
	}
	mine := filepath.Join(t.TempDir(), "mine.md")
	if err := os.WriteFile(mine, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // existing text is replaced
		if err := o.fillDocs(mine); err != nil {
			t.Fatal(err)
		}
	}
	filled, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range all {
		if n := bytes.Count(filled, []byte("**written "+sc.name+"**")); n != 1 {
			t.Errorf("%q is written %d times", sc.name, n)
		}
	}
	if err := o.fillDocs(filepath.Join(t.TempDir(), "none.md")); err == nil {
		t.Error("a missing document was filled")
	}
}
