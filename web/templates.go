package web

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/internal/describe"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by file name.
type templates map[string]*template.Template

func parseTemplates(a assets) templates {
	funcs := template.FuncMap{
		"age": formatAge, "left": formatLeft, "trip": formatTrip, "count": formatCount,
		"text": describe.Text, "process": processText, "mode": describe.Mode,
		"asset":    a.address,
		"instant":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05Z") },
		"resource": func(name string) string { return "resource?" + url.Values{"name": {name}}.Encode() },
		"breakOf": func(name, id string) string {
			return "break?" + url.Values{"name": {name}, "id": {id}}.Encode()
		},
		"moment":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") },
		"span":       formatSpan,
		"eventState": eventState,
		"history":    func(name string) string { return "history?" + url.Values{"name": {name}}.Encode() },
		"add":        func(a, b int) int { return a + b },
		"bar": func(left, longest time.Duration) float64 {
			if longest <= 0 {
				return 0
			}
			return 100 * min(1, max(0, left.Seconds()/longest.Seconds()))
		},
	}
	out := templates{}
	pages, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is bad
	}
	for _, name := range pages {
		base := name[len("templates/"):]
		if base == "layout.html" {
			continue
		}
		out[base] = template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", name))
	}
	return out
}

// frame is what every page has around its content.
type frame struct {
	Title, Heading, Path string
	Stream               string // address of the events; empty: the page does not change
	Links                []pageSpec
	Fresh                freshness
	ReadOnly             bool
	Body                 any
}

// Path returns the path of a view.
func (v pageSpec) Path() string {
	if v.path == "" {
		return "./"
	}
	return v.path
}

// Title returns the title of a view.
func (v pageSpec) Title() string { return v.title }

func (d *dashboard) frame(v pageSpec, r *http.Request, c content) frame {
	f := frame{Title: d.title, Heading: v.title, Path: v.Path(), Fresh: c.fresh, ReadOnly: d.authorize == nil, Body: c.body}
	if c.title != "" {
		f.Heading = c.title
	}
	for _, other := range views() {
		if other.path != "resource" {
			f.Links = append(f.Links, other)
		}
	}
	if v.load != nil {
		q := r.URL.Query()
		q.Set("view", v.path)
		f.Stream = "events?" + q.Encode()
	}
	return f
}

// page writes a whole page.
func (t templates) page(w http.ResponseWriter, status int, name string, f frame) {
	var text bytes.Buffer
	if err := t[name].Execute(&text, f); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // nobody reads the answer any more
}

// live returns the part of a page that changes.
func (t templates) live(name string, f frame) ([]byte, error) {
	var text bytes.Buffer
	err := t[name].ExecuteTemplate(&text, "live", f)
	return text.Bytes(), err
}

// freshness is how old what a page shows is.
type freshness struct {
	OK     bool // there is something to show
	At     time.Time
	Due    time.Time // of the next reading
	Took   time.Duration
	Every  time.Duration // at the earliest, from the end of one reading to the next
	Error  string        // of the latest reading
	Failed time.Time     // since when readings fail
}

// freshness describes a result to those who look at it.
func (r result[T]) freshness() freshness {
	f := freshness{OK: r.ok, At: r.at, Due: r.due, Took: r.took, Failed: r.failed}
	f.Every = max(time.Second, (share * r.took).Round(time.Second))
	if r.err != nil {
		f.Error = r.err.Error()
	}
	return f
}

// Age returns how old it is.
func (f freshness) Age() time.Duration { return time.Since(f.At) }
