package transcript

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// jobs are the processes that a script started in the background.
type jobs struct{ running map[string]*job }

type job struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error
}

func (j *jobs) start(ts *testscript.TestScript, name string, args []string) {
	var env []string
	for _, key := range []string{"PATH", "HOLDFAST_REDIS", "HOLDFAST_STORE", allDrivers, "GORACE", "WORK", "HOME", "TMPDIR"} {
		if value := ts.Getenv(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	path, err := exec.LookPath(args[0])
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, e := exec.LookPath(filepath.Join(dir, args[0])); e == nil {
			path, err = p, nil
			break
		}
	}
	ts.Check(err)
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	p := &job{done: make(chan struct{}), cmd: &exec.Cmd{
		Path: path, Args: args, Env: env, Dir: ts.MkAbs("."), Stdout: out, Stderr: errs,
	}}
	ts.Check(p.cmd.Start())
	j.running[name] = p
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
}

// runs reports whether the process has not ended.
func (j *job) runs() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

func (j *jobs) get(ts *testscript.TestScript, name string) *job {
	p := j.running[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// end ends what a script left running; guards then end the commands.
func (j *jobs) end() {
	for _, p := range j.running {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
