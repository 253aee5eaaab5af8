package arch

import (
	"go/ast"
	"slices"
)

// sleepInTests finds time.Sleep in tests and their support. In a bubble of
// testing/synctest it is virtual and welcome: inside synctest.Test, and in a
// function that calls synctest.Wait, which only works in a bubble.
func sleepInTests(tr *tree) []finding {
	var out []finding
	tr.each(testCode, func(_ *folder, s *source) {
		var enclosing []ast.Node
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n == nil {
				enclosing = enclosing[:len(enclosing)-1]
				return true
			}
			enclosing = append(enclosing, n)
			if x, sel, ok := selector(n); ok && x == "time" && sel == "Sleep" && !slices.ContainsFunc(enclosing, bubble) {
				out = append(out, tr.at(n, "time.Sleep"))
			}
			return true
		})
	})
	return out
}

func testCode(r *folder, s *source) bool { return s.test || r.support() }

// bubble reports whether a node's inside runs in virtual time.
func bubble(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		x, sel, ok := selector(n.Fun)
		return ok && x == "synctest" && sel == "Test"
	case *ast.FuncDecl:
		return n.Body != nil && waits(n.Body)
	case *ast.FuncLit:
		return waits(n.Body)
	}
	return false
}

func waits(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		x, sel, ok := selector(n)
		found = found || ok && x == "synctest" && sel == "Wait"
		return !found
	})
	return found
}

// skippedTests finds calls of Skip, Skipf and SkipNow.
func skippedTests(tr *tree) []finding {
	var out []finding
	tr.each(testCode, func(_ *folder, s *source) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if x, sel, ok := selector(call.Fun); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel) {
				out = append(out, tr.at(call, "%s.%s", x, sel))
			}
			return true
		})
	})
	return out
}
