package mutant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verdict is the result of the search for a mutant.
type Verdict struct {
	Mutant Mutant
	// By has the checks that found it; empty: it survived.
	By []string
	// Seed is the seed of the program that found it.
	Seed uint64
	// Took is the real time of the search without the build.
	Took time.Duration
	// Output is the output of the search.
	Output string
}

// Found reports whether one of the mutant's own checks found it. Whatever is found in a control counts.
func (v Verdict) Found() bool {
	if len(v.Mutant.Patches) == 0 {
		return len(v.By) > 0
	}
	return slices.ContainsFunc(v.By, func(name string) bool { return slices.Contains(v.Mutant.Checks, name) })
}

// Hunt builds the lab with the bug and searches for at most the given time, or the mutant's own limit if that
// is longer; or if the time is 0, by as many programs as an ordinary test of the lab plays. Root is the root of the project. It returns an error if the patch does not apply or does not build.
func Hunt(ctx context.Context, root string, m Mutant, most time.Duration) (Verdict, error) {
	v := Verdict{Mutant: m}
	folder, test := "virtual", "^TestSchedules$"
	if m.World == Live {
		folder, test = "live", "^TestHoldfastIsUnbroken$/^"+strings.TrimSuffix("holdfast-"+m.Store, "-")+"$"
	}
	lab := filepath.Join(root, "lab", folder)
	program, err := m.build(ctx, root, lab)
	if err != nil {
		return v, err
	}
	dir := filepath.Dir(program)
	defer os.RemoveAll(dir)
	bounded, cancel := context.WithCancel(ctx)
	env := []string{"HOLDFAST_LAB_WORLD=" + string(m.World), "HOLDFAST_LAB_KIND=" + string(m.Kind), "HOLDFAST_LAB_ENOUGH=1", "HOLDFAST_LAB_SHRINK=0", "HOLDFAST_LAB_OUT=" + dir}
	if most > 0 {
		most = max(most, m.Limit)
		bounded, cancel = context.WithTimeout(ctx, most+10*time.Second)
		env = append(env, "HOLDFAST_LAB_SCHEDULES=100000000", "HOLDFAST_LAB_RUNS=100000000",
			"HOLDFAST_LAB_SECONDS="+strconv.Itoa(int(most.Seconds())))
	}
	defer cancel()
	var out bytes.Buffer
	search := exec.CommandContext(bounded, program, "-test.v", "-test.run", test, "-test.timeout", "0")
	search.Dir, search.Stdout, search.Stderr = lab, &out, &out
	search.Env = append(os.Environ(), env...)
	start := time.Now()
	err = search.Run()
	v.Took, v.Output = time.Since(start), out.String()
	v.read(err, bounded.Err() != nil)
	return v, ctx.Err()
}

// build builds the tests of the package in a folder with the bug, and returns the program, in a folder of its own that
// the caller removes. It returns an error if the patch does not apply or does not build.
func (m Mutant) build(ctx context.Context, root, in string, flags ...string) (program string, err error) {
	dir, err := os.MkdirTemp("", "holdfast-mutant-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "planted.test")
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-c"}, flags, []string{"-overlay", overlay, "-o", program, "."})...)
	build.Dir = in
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s does not build: %w\n%s", m.Name, err, out)
	}
	return program, nil
}

// read sets By and Seed from the output of a search. A search that crashed or hung has
// found the bug as well.
func (v *Verdict) read(err error, stuck bool) {
	found := regexp.MustCompile(`FOUND by \[([^\]]*)\]: seed (\d+)`).FindStringSubmatch(v.Output)
	switch {
	case found != nil:
		v.By = strings.Fields(found[1])
		v.Seed, _ = strconv.ParseUint(found[2], 10, 64) // digits, by the pattern
	case stuck:
		v.By = []string{"hang"}
	case err != nil && (len(v.Mutant.Patches) == 0 || !strings.Contains(v.Output, "hollow: ")): // a search that shows too little has found nothing
		v.By = []string{"crash"}
	}
}
