package mutant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Kill builds the tests of the mutant's package with the bug and runs them until one fails,
// for at most the given time. Root is the root of the project. The verdict names the test; it
// names none if the bug survives, or if the tests take longer. Kill returns an error if the
// patch does not apply or does not build.
func Kill(ctx context.Context, root string, m Mutant, most time.Duration) (Verdict, error) {
	v := Verdict{Mutant: m}
	in := filepath.Join(root, filepath.FromSlash(m.Package))
	program, err := m.build(ctx, root, in, "-ldflags=-s -w")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(filepath.Dir(program))
	bounded, cancel := context.WithTimeout(ctx, most+10*time.Second)
	defer cancel()
	var out bytes.Buffer
	flags := []string{"-test.failfast", "-test.timeout", most.String()}
	for _, f := range m.Flags {
		if name, isFlag := strings.CutPrefix(f, "-"); isFlag {
			f = "-test." + name
		}
		flags = append(flags, f)
	}
	tests := exec.CommandContext(bounded, program, flags...)
	tests.Dir, tests.Stdout, tests.Stderr = in, &out, &out
	tests.WaitDelay = time.Second // servers of the tests may outlive them
	start := time.Now()
	err = tests.Run()
	v.Took, v.Output = time.Since(start), out.String()
	failed := regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindStringSubmatch(v.Output)
	switch {
	case failed != nil:
		v.By = []string{failed[1]}
	case strings.Contains(v.Output, "testing: warning: no tests to run\n"):
		return v, fmt.Errorf("%s: %s has no test for %q", m.Name, m.Package, m.Flags)
	case bounded.Err() != nil || strings.Contains(v.Output, "panic: test timed out after"): // slow, perhaps
	case err != nil:
		v.By = []string{"crash"}
	}
	return v, ctx.Err()
}
