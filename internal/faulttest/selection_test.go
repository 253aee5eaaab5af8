package faulttest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// pickTests leaves out, on a quorum and on miniredis, the tests that are not for it,
// unless the command line says which to run or to skip. With -v it names them, and why.
func pickTests() {
	flag.Parse()
	run, skip := flag.Lookup("test.run").Value, flag.Lookup("test.skip").Value
	if run.String() != "" || skip.String() != "" {
		return
	}
	var out map[string]string
	var instead []string
	var err error
	switch {
	case onMiniredis():
		out, instead = notOnMiniredis(), insteadOnMiniredis()
		err = skip.Set(exactly(slices.Collect(maps.Keys(out))))
	case inMemory():
		out = notOnQuorum()
		err = run.Set(exactly(onMemories()))
	case sizeOfQuorum() > 1:
		out = notOnQuorum()
		err = run.Set(exactly(onQuorum()))
	}
	if err != nil {
		panic(err)
	}
	if !testing.Verbose() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		fmt.Printf("left out: %s: %s\n", name, out[name])
	}
	for _, what := range instead {
		fmt.Printf("in place of %s\n", what)
	}
}

// exactly is the pattern for these tests alone.
func exactly(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// byName turns reasons with the tests that each is for into tests with their reason.
func byName(reasons map[string]string) map[string]string {
	all := map[string]string{}
	for why, names := range reasons {
		for _, name := range strings.Fields(names) {
			all[name] = why
		}
	}
	return all
}

// Each test of this package is either for a quorum or left out with a reason; and what
// is left out on miniredis is there.
func TestListsAreWhole(t *testing.T) {
	tests := testsHere(t)
	forQuorum := slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(notOnQuorum())), onQuorum()...)))
	if !slices.Equal(forQuorum, tests) {
		t.Errorf("the lists for a quorum have\n%q, and the package has\n%q", forQuorum, tests)
	}
	for name := range notOnMiniredis() {
		if !slices.Contains(tests, name) {
			t.Errorf("%s is left out on miniredis and is not there", name)
		}
	}
}

// testsHere is the names of all tests of this package, in order.
func testsHere(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return slices.Sorted(slices.Values(names))
}
