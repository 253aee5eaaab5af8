package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// packageState finds package-level variables that are, or could be, changed.
// Allowed are blank ones, errors, embedded text, and tables and compiled
// patterns that nothing in the package assigns to.
func packageState(tr *tree) []finding {
	var out []finding
	for _, r := range tr.folders {
		written := r.written()
		for _, s := range r.files {
			if s.test {
				continue
			}
			for _, decl := range s.ast.Decls {
				d, ok := decl.(*ast.GenDecl)
				if !ok || d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					out = append(out, variables(tr, d, spec.(*ast.ValueSpec), written)...)
				}
			}
		}
	}
	return out
}

func variables(tr *tree, d *ast.GenDecl, spec *ast.ValueSpec, written []string) []finding {
	var out []finding
	for i, name := range spec.Names {
		var value ast.Expr
		if i < len(spec.Values) {
			value = spec.Values[i]
		}
		switch {
		case name.Name == "_":
		case slices.Contains(written, name.Name):
			out = append(out, tr.at(name, "%s is changed by the package", name.Name))
		case strings.HasPrefix(strings.ToLower(name.Name), "err"):
		case embedded(d.Doc) || embedded(spec.Doc):
		case !constant(value):
			out = append(out, tr.at(name, "%s is a variable of the package", name.Name))
		}
	}
	return out
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// constant reports whether a first value is a table, or is made by a function
// whose results do not change.
func constant(value ast.Expr) bool {
	makers := []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "redis.NewScript", "strings.NewReplacer"}
	switch v := value.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		x, sel, ok := selector(v.Fun)
		return ok && slices.Contains(makers, x+"."+sel)
	}
	return false
}

// written returns the names that the package outside its tests assigns to,
// counts up or takes the address of. It goes by name: a local variable that
// shadows one of the package is found too, and better renamed.
func (r *folder) written() []string {
	var out []string
	note := func(e ast.Expr) {
		if id := rootOf(e); id != nil {
			out = append(out, id.Name)
		}
	}
	for _, s := range r.files {
		if s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						note(e)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
					note(n.Args[0])
				}
			}
			return true
		})
	}
	return out
}

// rootOf returns x of x, x[i], x.f, *x and their mixtures.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
