package arch

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

func packageNames(tr *tree) []finding {
	tooWide := []string{"pkg", "util", "utils", "common", "types", "helper", "helpers", "misc", "shared", "lib"}
	var out []finding
	for _, r := range tr.folders {
		name := strings.TrimSuffix(r.files[0].ast.Name.Name, "_test")
		if slices.Contains(tooWide, path.Base(r.dir)) || slices.Contains(tooWide, name) {
			out = append(out, tr.at(r.files[0].ast.Name, "a package named %q", path.Base(r.dir)))
		}
	}
	return out
}

func packageComment(tr *tree) []finding {
	var out []finding
	for _, r := range tr.folders {
		var first *source
		said := false
		for _, s := range r.files {
			if s.test {
				continue
			}
			if first == nil {
				first = s
			}
			said = said || s.ast.Doc != nil && (s.ast.Name.Name == "main" || strings.HasPrefix(s.ast.Doc.Text(), "Package "+s.ast.Name.Name+" "))
		}
		if first != nil && !said {
			out = append(out, tr.at(first.ast.Name, "%s has no comment that starts with %q", r.label(), "Package "+first.ast.Name.Name))
		}
	}
	return out
}

// exportedComment: methods that only satisfy a well-known interface speak for
// themselves, and a comment above a group covers the group.
func exportedComment(tr *tree) []finding {
	known := []string{"String", "Error", "Unwrap", "Is", "Len", "Less", "Swap", "Push", "Pop"}
	var out []finding
	tr.each(library, func(_ *folder, s *source) {
		for _, decl := range s.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if exported(d) && d.Doc == nil && (d.Recv == nil || !slices.Contains(known, d.Name.Name)) {
					out = append(out, tr.at(d, "%s has no comment", d.Name.Name))
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					out = append(out, tr.at(name, "%s has no comment", name.Name))
				}
			}
		}
	})
	return out
}

// library lets through code that has importers.
func library(_ *folder, s *source) bool { return !s.test && s.ast.Name.Name != "main" }

// exported reports whether a function, and the type that it is a method of, can
// be named from outside.
func exported(f *ast.FuncDecl) bool {
	if t := receiver(f); f.Recv != nil && (t == nil || !t.IsExported()) {
		return false
	}
	return f.Name.IsExported()
}

func receiver(f *ast.FuncDecl) *ast.Ident {
	if f.Recv == nil {
		return nil
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x
		default:
			return nil
		}
	}
}

func undocumented(d *ast.GenDecl) []*ast.Ident {
	if d.Doc != nil {
		return nil
	}
	var out []*ast.Ident
	for _, spec := range d.Specs {
		switch sp := spec.(type) {
		case *ast.TypeSpec:
			if sp.Name.IsExported() && sp.Doc == nil {
				out = append(out, sp.Name)
			}
		case *ast.ValueSpec:
			for _, n := range sp.Names {
				if n.IsExported() && sp.Doc == nil && sp.Comment == nil {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// boolParameters covers what users call; inside the project a call stands near
// what it calls.
func boolParameters(tr *tree) []finding {
	var out []finding
	public := func(r *folder, s *source) bool {
		return library(r, s) && !slices.Contains(strings.Split(r.dir, "/"), "internal")
	}
	tr.each(public, func(_ *folder, s *source) {
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !exported(f) {
				continue
			}
			for _, p := range f.Type.Params.List {
				if id, ok := p.Type.(*ast.Ident); ok && id.Name == "bool" {
					out = append(out, tr.at(p, "%s takes a bool", f.Name.Name))
				}
			}
		}
	})
	return out
}

func noInit(tr *tree) []finding {
	var out []finding
	tr.each(nonTest, func(_ *folder, s *source) {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				out = append(out, tr.at(f, "a function init"))
			}
		}
	})
	return out
}

const (
	maxFile     = 600
	maxFunction = 80
)

func fileSize(tr *tree) []finding {
	var out []finding
	check := func(s *source) {
		if s.lines > maxFile && !strings.Contains(tr.decisions, s.path) {
			out = append(out, finding{path: s.path, text: fmt.Sprintf("%d lines, more than %d", s.lines, maxFile)})
		}
	}
	tr.each(func(*folder, *source) bool { return true }, func(_ *folder, s *source) { check(s) })
	for _, s := range tr.scripts {
		check(s)
	}
	return out
}

func functionSize(tr *tree) []finding {
	var out []finding
	tr.each(nonTest, func(_ *folder, s *source) {
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := tr.fset.Position(f.End()).Line - tr.fset.Position(f.Pos()).Line + 1; n > maxFunction {
				out = append(out, tr.at(f, "%s has %d lines, more than %d", f.Name.Name, n, maxFunction))
			}
		}
	})
	return out
}

// words looks at names only; prose may need a word in its plain sense. Names
// behind a dot may be somebody else's.
func words(tr *tree) []finding {
	bad := regexp.MustCompile(`(?i)heartbeat|owner|permit|refresh|stolen|obtain`)
	var out []finding
	tr.each(product, func(_ *folder, s *source) {
		foreign := map[*ast.Ident]bool{}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				foreign[n.Sel] = true
			case *ast.Ident:
				if w := bad.FindString(n.Name); w != "" && !foreign[n] {
					out = append(out, tr.at(n, "%s says %q", n.Name, strings.ToLower(w)))
				}
			}
			return true
		})
	})
	return out
}

func unfinished(tr *tree) []finding {
	note := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	var out []finding
	tr.each(func(*folder, *source) bool { return true }, func(_ *folder, s *source) {
		for _, group := range s.ast.Comments {
			for _, c := range group.List {
				if w := note.FindString(c.Text); w != "" {
					out = append(out, tr.at(c, "a comment says %s", w))
				}
			}
		}
	})
	return out
}
