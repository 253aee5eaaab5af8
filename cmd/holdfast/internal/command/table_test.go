package command

import "testing"

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "-", "plain": "plain", "仓库 42": "仓库 42", `C:\new "x"`: `C:\new "x"`, "a\tb\n": `a\tb\n`, "\x1b[31m": `\x1b[31m`,
		"\u202e": `\u202e`, "bad \xff": `bad \xff`, "\ufffd": "\ufffd",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) = %q, want %q", text, got, want)
		}
	}
}

// countingWriter counts calls.
type countingWriter struct{ calls int }

func (w *countingWriter) Write(p []byte) (int, error) { w.calls++; return len(p), nil }

func TestTableWritesFewTimes(t *testing.T) {
	var w countingWriter
	rows := table(&w, "A\tB\tC")
	for range 100 {
		if _, err := rows.Write([]byte("1\t2\t3\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Flush(); err != nil || w.calls != 1 {
		t.Errorf("%d writes, %v; want 1", w.calls, err)
	}
}
