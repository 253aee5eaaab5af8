package redistest

import (
	"io"
	"os"
	"os/exec"
)

// StartSelf starts this program again with additional environment variables ("NAME=value"), and
// returns pipes to its input and from its output. Read the output to its end, then call Wait. On
// Linux the new process ends with this one.
func StartSelf(stderr io.Writer, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(self)
	cmd.Args = os.Args[:1] // a program may behave differently by its name
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = DieWithParent()
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, out, cmd.Start()
}
