package arch

import (
	"go/ast"
	"path"
	"slices"
)

// mayImport is the direction of the project: which folders of it a folder's
// code outside tests may import. A folder stands for those below it too, which
// always may import each other; the longest entry counts. Folders that do not
// exist yet are the plan.
func mayImport() map[string][]string {
	return map[string][]string{
		"":                     {"engine", "internal/eitherctx", "internal/gate", "internal/keepalive", "internal/tenure"},
		"internal/eitherctx":   {},
		"internal/gate":        {},
		"internal/keepalive":   {"engine"},
		"internal/tenure":      {"engine"},
		"internal/queue":       {},
		"internal/random":      {},
		"internal/leaktest":    {},
		"internal/redistest":   {},
		"internal/sqlservers":  {"internal/redistest"},
		"internal/zkservers":   {"internal/redistest"},
		"internal/etcdservers": {"internal/redistest"},
		"internal/storetest":   {"", "engine", "engine/cas", "internal/redistest"},
		"internal/faulttest":   {},
		// Random programs against models, for its own tests and those of the root.
		"internal/primitivetest":    {"", "engine", "internal/random"},
		"internal/arch":             {},
		"engine":                    {},
		"engine/enginetest":         {"engine"},
		"engine/internal/translate": {"engine", "internal/queue"},
		"engine/memory":             {"engine", "engine/internal/translate", "internal/queue"},
		"engine/cas":                {"engine", "engine/internal/translate", "internal/queue"},
		"engine/cas/castest":        {"engine/cas"},
		"engine/etcd":               {"engine", "engine/cas"},
		"engine/internal/sqltable":  {"engine", "engine/cas"},
		"engine/mysql":              {"engine", "engine/cas", "engine/internal/sqltable"},
		"engine/sqlite":             {"engine", "engine/cas", "engine/internal/sqltable"},
		"engine/goredis":            {"engine", "internal/eitherctx"},
		"engine/quorum":             {"engine"},
		"engine/postgres":           {"engine", "engine/cas"},
		"engine/zookeeper":          {"engine", "engine/cas"},
		"fence":                     {},
		"fence/sqltest":             {},
		"internal/describe":         {"", "engine"},
		"web":                       {"", "engine", "internal/describe"},
		"web/webtest":               {},
		"cmd":                       {"", "engine", "engine/goredis", "engine/memory", "engine/quorum", "fence", "internal/describe", "web"},
		// The other stores, with their drivers; the command links no more than Redis's.
		"cmd/holdfast/internal/stores": {"", "cmd/holdfast/internal/diagnosis", "cmd/holdfast/internal/doctorstores", "cmd/holdfast/internal/store", "engine", "engine/etcd", "engine/mysql", "engine/postgres", "engine/sqlite", "engine/zookeeper"},
		"cmd/holdfast/holdfast-stores": {"cmd/holdfast/internal/command", "cmd/holdfast/internal/stores"},
		// Support of tests: the command without its verbs, and servers.
		"cmd/holdfast/internal/transcript": {"cmd/holdfast/internal/demo", "cmd/holdfast/internal/guard", "cmd/holdfast/internal/store", "cmd/holdfast/internal/stores", "internal/etcdservers", "internal/redistest", "internal/sqlservers", "internal/zkservers"},
		"otelholdfast":                     {""},
		"contrib":                          {},
		"examples":                         {"", "engine/goredis", "fence", "internal/redistest"},
		"examples/migrating/stores":        {"", "engine/goredis", "engine/postgres", "engine/quorum"},
		"lab":                              {"*"},
		// The judge from outside shares no code with the library.
		"lab/ledger": {"lab/check", "lab/history"},
		"bench":      {"*"},
		"release":    {"*"},
	}
}

// direction: cmd -> holdfast -> internal/{keepalive,tenure} -> engine <- engines.
func direction(tr *tree) []finding {
	table := mayImport()
	var out []finding
	tr.each(nonTest, func(r *folder, s *source) {
		row := r.row(table)
		allowed, known := table[row]
		if !known {
			out = append(out, tr.at(s.ast.Name, "%s has no row in the table of directions", r.label()))
			return
		}
		for _, spec := range s.ast.Imports {
			dir, ok := home(importPath(spec))
			same := row != "" && (&folder{dir: dir}).row(table) == row
			if !ok || same || slices.Contains(allowed, "*") || slices.Contains(allowed, dir) {
				continue
			}
			out = append(out, tr.at(spec, "%s imports %s; it may import %q", r.label(), dir, allowed))
		}
	})
	return out
}

// row returns the entry that speaks for a folder, or a folder without an entry.
func (r *folder) row(table map[string][]string) string {
	dir := r.dir
	for dir != "" {
		if _, ok := table[dir]; ok {
			break
		}
		parent := path.Dir(dir)
		if parent == "." {
			break
		}
		dir = parent
	}
	return dir
}

func nonTest(_ *folder, s *source) bool { return !s.test }

func standardLibrary(tr *tree) []finding {
	return forbidImports(tr, func(r *folder, s *source) bool {
		return !s.test && (r.dir == "engine" || r.in("internal/queue"))
	}, func(p string) bool { return !standard(p) })
}

func pureQueue(tr *tree) []finding {
	inQueue := func(r *folder, s *source) bool { return !s.test && r.in("internal/queue") }
	impure := []string{"context", "crypto", "io", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "time", "unsafe"}
	out := forbidImports(tr, inQueue, func(p string) bool {
		return slices.ContainsFunc(impure, func(top string) bool { return within(p, top) })
	})
	tr.each(inQueue, func(_ *folder, s *source) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				out = append(out, tr.at(n, "a goroutine in the queue"))
			case *ast.SelectStmt, *ast.ChanType:
				out = append(out, tr.at(n, "a channel in the queue"))
			}
			return true
		})
	})
	return out
}

// driver: engine/goredis names go-redis, and so may the guards of package fence,
// the support of tests, and cmd and the examples, which make the client that
// goredis.New takes.
func driver(tr *tree) []finding {
	return forbidImports(tr, func(r *folder, s *source) bool {
		return product(r, s) && !r.in("engine/goredis") && !r.in("fence") && !r.in("cmd") && !r.in("examples") && !r.in("lab") && !r.in("bench")
	}, func(p string) bool { return within(p, "github.com/redis") })
}

// rootIO: of package os the root package may use what identifies the process, and no more.
func rootIO(tr *tree) []finding {
	inRoot := func(r *folder, s *source) bool {
		return !s.test && (r.dir == "" || r.in("internal/keepalive") || r.in("internal/tenure"))
	}
	self := []string{"Hostname", "Getpid", "Args"}
	outside := []string{"database", "embed", "io/fs", "net", "os/exec", "os/signal", "os/user", "plugin", "syscall"}
	out := forbidImports(tr, inRoot, func(p string) bool {
		return slices.ContainsFunc(outside, func(top string) bool { return within(p, top) })
	})
	tr.each(inRoot, func(_ *folder, s *source) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if x, sel, ok := selector(n); ok && x == "os" && !slices.Contains(self, sel) {
				out = append(out, tr.at(n, "os.%s: only %q", sel, self))
			}
			return true
		})
	})
	return out
}

// cronReader is the one library that the root package imports; see decision 0030.
const cronReader = "github.com/adhocore/gronx"

// adapters are the engines that are modules of their own, because of their drivers.
func adapters() []string {
	return []string{"engine/etcd", "engine/mysql", "engine/postgres", "engine/sqlite", "engine/zookeeper"}
}

// thirdParty covers the root module; the others have their own go.mod, so that
// what they need stays with them.
func thirdParty(tr *tree) []finding {
	rootModule := func(r *folder, s *source) bool {
		return product(r, s) && !slices.ContainsFunc(adapters(), r.in) && !r.in("cmd") && !r.in("examples") && !r.in("otelholdfast") && !r.in("lab") && !r.in("bench") && !r.in("release")
	}
	foreign := func(p string) bool {
		_, own := home(p)
		return !own && !standard(p) && !within(p, "github.com/redis/go-redis")
	}
	inRoot := func(r *folder, s *source) bool { return rootModule(r, s) && r.dir == "" }
	below := func(r *folder, s *source) bool { return rootModule(r, s) && r.dir != "" }
	return append(forbidImports(tr, inRoot, func(p string) bool { return foreign(p) && p != cronReader }),
		forbidImports(tr, below, foreign)...)
}

// labAndBench: nothing imports them, tests included.
func labAndBench(tr *tree) []finding {
	elsewhere := func(r *folder, _ *source) bool { return !r.in("lab") && !r.in("bench") }
	return forbidImports(tr, elsewhere, func(p string) bool {
		dir, own := home(p)
		return own && (within(dir, "lab") || within(dir, "bench"))
	})
}

func forbidImports(tr *tree, where func(*folder, *source) bool, bad func(string) bool) []finding {
	var out []finding
	tr.each(where, func(r *folder, s *source) {
		for _, spec := range s.ast.Imports {
			if p := importPath(spec); bad(p) {
				out = append(out, tr.at(spec, "%s imports %s", r.label(), p))
			}
		}
	})
	return out
}
