package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tables that compare Holdfast with other locks have a comment in each row:
// tests, scenarios of the lab, and tables of docs/PERFORMANCE.md. The tests and
// scenarios exist, and the figures are those of the tables.
func TestComparisonHasEvidence(t *testing.T) {
	declared := declarations(t)
	figures := measurements(t)
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		section := sections(t, page)["Why leave the lock you have"]
		rows := regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(section.text, -1)
		if len(rows) < 10 {
			t.Errorf("%s: the comparison has %d rows", page, len(rows))
		}
		compareRatios(t, page, section.text)
		libraries := []string{"", "holdfast", "redsync", "redislock", "rueidislock"}
		for _, row := range rows[1:] {
			if strings.Trim(row, "| ") == "" {
				continue
			}
			visible, evidence, _ := strings.Cut(row, "<!--")
			if strings.TrimSpace(evidence) == "" {
				t.Errorf("%s: a row without evidence: %s", page, row)
				continue
			}
			for item := range strings.SplitSeq(strings.TrimSuffix(strings.TrimRight(evidence, " |"), "-->"), ";") {
				kind, name, named := strings.Cut(strings.TrimSpace(item), ": ")
				switch {
				case !named && !declared[kind]:
					t.Errorf("%s: there is no test %q, for %s", page, kind, visible)
				case kind == "lab" && !declared[name]:
					t.Errorf("%s: the lab has no scenario %q, for %s", page, name, visible)
				case kind == "bench":
					compareFigures(t, figures, name, libraries, visible)
				}
			}
		}
	}
}

// compareRatios computes how many times the best of the others hands off, from the rows with these figures.
func compareRatios(t *testing.T, page, text string) {
	t.Helper()
	var want []string
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|([ \d.,|]+)<!-- bench: processes / 8 × \d / hand-offs/s`).FindAllStringSubmatch(text, -1) {
		var all []float64
		for cell := range strings.SplitSeq(strings.ReplaceAll(row[1], ",", ""), "|") {
			n, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil {
				t.Errorf("%s: %v in %s", page, err, row[0])
			}
			all = append(all, n)
		}
		want = append(want, strconv.FormatFloat(all[0]/slices.Max(all[1:]), 'g', 2, 64))
	}
	var said []string
	for _, ratio := range regexp.MustCompile(`([\d.]+) (?:times|倍)`).FindAllStringSubmatch(text, -1) {
		said = append(said, ratio[1])
	}
	if !slices.Equal(said, want) {
		t.Errorf("%s has the ratios %q; those of the rows are %q", page, said, want)
	}
}

// compareFigures looks for the figures of a row in a column of a table.
func compareFigures(t *testing.T, figures []measurement, column string, libraries []string, visible string) {
	t.Helper()
	var of []measurement
	for _, m := range figures {
		if m.column == strings.ReplaceAll(column, " ", "") {
			of = append(of, m)
		}
	}
	if len(of) == 0 {
		t.Errorf("docs/PERFORMANCE.md has no column %q", column)
	}
	check := func(library, figure string) {
		for _, m := range of {
			if strings.HasPrefix(m.contender, strings.ToLower(library)) && m.value == strings.ReplaceAll(figure, ",", "") {
				return
			}
		}
		t.Errorf("%s: docs/PERFORMANCE.md has no %s of %s", column, figure, library)
	}
	number := regexp.MustCompile(`^[\d.,]+$`)
	cells := strings.Split(visible, "|")[1:]
	for i, cell := range cells {
		if cell = strings.TrimSpace(cell); len(cells) >= len(libraries) && i < len(libraries) && number.MatchString(cell) {
			check(libraries[i], cell)
		}
	}
	if len(cells) < len(libraries) {
		for _, pair := range regexp.MustCompile(`([A-Za-z]+)(?: with fail-fast| \(fail-fast\))? (\d[\d.,]*\d)`).FindAllStringSubmatch(cells[1], -1) {
			check(pair[1], pair[2])
		}
	}
}

// Every table that make bench writes into a document has figures.
func TestNoSlotOfTheBenchmarkIsEmpty(t *testing.T) {
	slot := regexp.MustCompile(`(?s)<!-- bench: ([^\n]*?) -->\n(.*?)<!-- /bench -->`)
	for _, page := range []string{"docs/PERFORMANCE.md", "docs/STORES.md"} {
		slots := slot.FindAllStringSubmatch(read(t, page), -1)
		if len(slots) < 5 {
			t.Errorf("%s has %d slots", page, len(slots))
		}
		for _, s := range slots {
			if !regexp.MustCompile(`\d`).MatchString(s[2]) {
				t.Errorf("%s: the slot of %q is empty; go run ./bench -only %[2]s measures it", page, s[1])
			}
		}
	}
}

// measurement is one cell of docs/PERFORMANCE.md; its column is "scenario/variant/column".
type measurement struct{ column, contender, value string }

func measurements(t *testing.T) []measurement {
	t.Helper()
	var out []measurement
	var scenario, variant string
	var header []string
	for line := range strings.Lines(read(t, "docs/PERFORMANCE.md")) {
		line = strings.TrimSpace(line)
		switch cells := strings.Split(strings.Trim(line, "|"), "|"); {
		case strings.HasPrefix(line, "<!-- bench: "):
			scenario, variant, header = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- bench: "), " -->"), "", nil
		case strings.HasPrefix(line, "**") && strings.HasSuffix(line, "**"):
			variant, header = strings.Trim(line, "*"), nil
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-"):
		case header == nil:
			header = cells
		default:
			for i := 1; i < len(cells) && i < len(header); i++ {
				column := strings.ReplaceAll(scenario+"/"+variant+"/"+header[i], " ", "")
				out = append(out, measurement{column, strings.Trim(cells[0], "* "), strings.TrimSpace(cells[i])})
			}
		}
	}
	return out
}

// declarations are the names of the tests and examples of the project, and the
// IDs of the lab's scenarios.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	names := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(|\bID:\s+"([^"]+)"`)
	out := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			out[m[1]+m[2]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The Chinese page has the sections of the English one in the same order, with
// as many rows, list items, code blocks and links each.
func TestChineseREADMEHasTheSameSections(t *testing.T) {
	english, chinese := sections(t, "README.md"), sections(t, "README.zh-CN.md")
	for title, e := range english {
		c, ok := chinese[title]
		if !ok {
			t.Errorf("README.zh-CN.md has no section %q", title)
			continue
		}
		if c.position != e.position {
			t.Errorf("%q is section %d, in English %d", title, c.position, e.position)
		}
		for _, part := range []string{"\n| ", "\n- ", "\n```", "](docs/"} {
			if n, want := strings.Count(c.text, part), strings.Count(e.text, part); n != want {
				t.Errorf("%q has %d of %q, in English %d", title, n, part, want)
			}
		}
	}
	for title := range chinese {
		if _, ok := english[title]; !ok {
			t.Errorf("README.md has no section %q", title)
		}
	}
}

type section struct {
	position int
	text     string
}

// sections splits a page at its headings. A translated heading has the English
// one in a comment.
func sections(t *testing.T, page string) map[string]section {
	t.Helper()
	out := map[string]section{}
	for i, part := range strings.Split("\n"+read(t, page), "\n## ") {
		heading, text, _ := strings.Cut(part, "\n")
		if _, original, ok := strings.Cut(heading, "<!-- "); ok {
			heading = strings.TrimSuffix(original, " -->")
		}
		if i == 0 {
			heading = "the head of the page"
		}
		out[heading] = section{i, "\n" + text}
	}
	return out
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
