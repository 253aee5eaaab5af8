package arch

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sameMeaning lists the type names that several packages may declare, since they mean the same in each.
func sameMeaning() []struct {
	reason string
	names  []string
	in     []string
} {
	return []struct {
		reason string
		names  []string
		in     []string
	}{
		{"the contract, its specification, its codec for Redis and what users read say the same thing, each in its own terms",
			[]string{"Answer", "Break", "Brief", "Cause", "Holder", "Release", "Request", "Snapshot", "Status", "Waiter"},
			[]string{"", "engine", "engine/goredis/internal/script", "internal/queue"}},
		{"a tombstone remembers how an ID ended", []string{"tombstone"}, []string{"engine/quorum", "internal/queue"}},
		{"an engine is named by its package", []string{"Engine"}, append(adapters(), "engine", "engine/cas", "engine/goredis", "engine/memory", "engine/quorum")},
		{"the dashboard shows the findings of an examination as they are", []string{"Finding"}, []string{"cmd/holdfast/internal/diagnosis", "web"}},
		{"options are named by their package", []string{"Option", "options"}, append(adapters(), "", "engine/enginetest", "engine/goredis", "otelholdfast", "web")},
		{"engine.Client describes the process of a holdfast.Client to the store", []string{"Client"}, []string{"", "engine"}},
	}
}

// homonyms compares what users link and run; the lab and the benchmark may say Lease too.
func homonyms(tr *tree) []finding {
	type declared struct {
		dir  string
		name *ast.Ident
	}
	byName := map[string][]declared{}
	tr.each(shipped, func(r *folder, s *source) {
		for _, spec := range typesOf(s) {
			byName[spec.Name.Name] = append(byName[spec.Name.Name], declared{r.dir, spec.Name})
		}
	})
	var out []finding
	for name, all := range byName {
		others := slices.DeleteFunc(slices.Clone(all), func(d declared) bool { return mayShare(name, d.dir) })
		if len(others) == 0 || !slices.ContainsFunc(all, func(d declared) bool { return d.dir != all[0].dir }) {
			continue
		}
		for _, d := range others {
			out = append(out, tr.at(d.name, "%d packages have a type %s", len(all), name))
		}
	}
	return out
}

func mayShare(name, dir string) bool {
	for _, same := range sameMeaning() {
		if slices.Contains(same.names, name) && slices.Contains(same.in, dir) {
			return true
		}
	}
	return false
}

// shipped lets through what users link or run.
func shipped(r *folder, s *source) bool {
	return product(r, s) && !r.in("lab") && !r.in("bench") && !r.in("examples")
}

func typesOf(s *source) []*ast.TypeSpec {
	var out []*ast.TypeSpec
	for _, decl := range s.ast.Decls {
		if d, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					out = append(out, spec)
				}
			}
		}
	}
	return out
}

// retired returns the words that are not used any more, in names and in prose, and those that are only no names:
// in a sentence they have a plain sense. "drop", "leave" and "finish" stay names: they say that an entry is discarded,
// that a process withdraws from all its queues, and that a run ends. "ticket" is the word of Lease.Detach, "locker" that of sync.Locker.
func retired() (everywhere, inNames *regexp.Regexp) {
	both := []string{
		"footing", "forsaken", "errand", "crew", "crewman", "vow", "pledge", "recant", "ear", "mailbox", "keyring", "troop",
		"patience", "gathering", "rooms", "tidier", "(?:short|long) way", "(?:give|gave|given) back", "handed on", "hand on",
	}
	names := []string{
		"(?:give|gives|gave|given) up", "give on", "pass on", "vacate", "abandon", "insist", "conclude", "concluded", "depart", "audience", "telling",
		"union", "ending", "shelf", "shelves", "outcry",
	}
	everywhere = regexp.MustCompile(`(?i)\b(?:` + strings.Join(both, "|") + `)s?\b`)
	inNames = regexp.MustCompile(`\b(?:` + strings.Join(append(names, both...), "|") + `)s?\b|^(?:read |most )?together\b`)
	return everywhere, inNames
}

func retiredWords(tr *tree) []finding {
	prose, names := retired()
	var out []finding
	own := func(r *folder, _ *source) bool { return !r.in("examples") } // an example may use another library's words
	tr.each(own, func(_ *folder, s *source) {
		if w := names.FindString(spaced(fileName(s))); w != "" {
			out = append(out, tr.at(s.ast.Name, "the file's name says %q", w))
		}
		foreign := map[*ast.Ident]bool{}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				foreign[sel.Sel] = true // declared elsewhere
			}
			if id, ok := n.(*ast.Ident); ok && !foreign[id] {
				if w := names.FindString(spaced(id.Name)); w != "" {
					out = append(out, tr.at(id, "%s says %q", id.Name, w))
				}
			}
			return true
		})
		for _, group := range s.ast.Comments {
			for _, c := range group.List {
				out = append(out, lines(prose, s.path, tr.at(c, "").line, c.Text)...)
			}
		}
	})
	for _, s := range slices.Concat(tr.scripts, tr.pages) {
		out = append(out, lines(prose, s.path, 1, string(s.text))...)
	}
	return out
}

// lines finds the words in a text that starts at a line of a file.
func lines(bad *regexp.Regexp, file string, first int, text string) []finding {
	var out []finding
	for line := range strings.Lines(text) {
		if w := bad.FindString(line); w != "" {
			out = append(out, finding{path: file, line: first, text: "says " + strings.ToLower(w)})
		}
		first++
	}
	return out
}

// fileNames: a file is called as a type, a function or a method that it declares. After a first word that several files
// of the package share, the rest is enough; the package's own name is enough too.
func fileNames(tr *tree) []finding {
	free := []string{"doc", "main", "errors", "options"}
	var out []finding
	tr.each(shipped, func(r *folder, s *source) {
		name := fileName(s)
		if slices.Contains(free, name) || name == s.ast.Name.Name {
			return
		}
		want := strings.Split(name, "_")
		declared := declaredIn(s)
		named := slices.ContainsFunc(declared, func(d string) bool { return says(d, want) })
		if !named && len(want) > 1 && r.grouped(want[0]) {
			named = slices.ContainsFunc(declared, func(d string) bool { return says(d, want[1:]) })
		}
		if !named {
			out = append(out, tr.at(s.ast.Name, "nothing in %s is called like it", path.Base(s.path)))
		}
	})
	return out
}

// fileName returns a file's name without its ending and the system that it is for.
func fileName(s *source) string {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
	return strings.TrimSuffix(strings.TrimSuffix(name, "_linux"), "_other")
}

func (r *folder) grouped(first string) bool {
	n := 0
	for _, s := range r.files {
		if word, _, _ := strings.Cut(fileName(s), "_"); word == first && !s.test {
			n++
		}
	}
	return n > 1
}

// declaredIn lists the names that a file declares, a method after its type.
func declaredIn(s *source) []string {
	var out []string
	for _, spec := range typesOf(s) {
		out = append(out, spec.Name.Name)
	}
	for _, decl := range s.ast.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if t := receiver(f); t != nil {
				name = t.Name + " " + name
			}
			out = append(out, name)
		}
	}
	return out
}

// says reports whether a name has all the words, each in some form: merge and merger, batch and batches.
func says(name string, words []string) bool {
	if strings.EqualFold(name, strings.Join(words, "")) {
		return true
	}
	all := strings.Fields(spaced(name))
	return !slices.ContainsFunc(words, func(w string) bool {
		return !slices.ContainsFunc(all, func(have string) bool {
			short := min(len(w), len(have))
			return w == have || short > 2 && w[:short] == have[:short]
		})
	})
}

var wordOfName = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// spaced returns a name in lower case with a blank between its words.
func spaced(name string) string {
	return strings.ToLower(strings.Join(wordOfName.FindAllString(name, -1), " "))
}
