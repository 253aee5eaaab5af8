package programme

import (
	_ "embed"
	"fmt"
	html "html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	text "text/template"
)

//go:embed report.md.tmpl
var markdownText string

//go:embed report.html.tmpl
var htmlText string

// words are the functions of the templates.
func words() map[string]any {
	return map[string]any{
		"short": Short,
		"join":  func(all []string) string { return strings.Join(all, ", ") },
		"cell":  func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"bad":   func(c interface{ Bad() string }) bool { return c.Bad() != "" },
	}
}

// Markdown writes the tables and figures.
func (r Report) Markdown(w io.Writer) error {
	t, err := text.New("report").Funcs(words()).Parse(markdownText)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// HTML writes a page that needs nothing else.
func (r Report) HTML(w io.Writer) error {
	t, err := html.New("report").Funcs(words()).Parse(htmlText)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// Write writes the report to a file, as HTML or Markdown by its name.
func (r Report) Write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	write := r.Markdown
	if ext := strings.ToLower(filepath.Ext(file)); ext == ".html" || ext == ".htm" {
		write = r.HTML
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

// Marks between which Figures writes.
const (
	figuresBegin = "<!-- figures: written by the lab, do not edit -->"
	figuresEnd   = "<!-- end of figures -->"
)

// Figures puts the Markdown of the report in place of what stands between the two
// marks of a file. Errors: it cannot be read or written, or has no marks.
func (r Report) Figures(file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), figuresBegin)
	_, after, ends := strings.Cut(rest, figuresEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: the marks %q and %q are missing", file, figuresBegin, figuresEnd)
	}
	var b strings.Builder
	if err := r.Markdown(&b); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+figuresBegin+"\n"+b.String()+figuresEnd+after), 0o644)
}
