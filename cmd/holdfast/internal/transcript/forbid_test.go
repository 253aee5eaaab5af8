package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// scene is the testscript.T of a script that has to fail; it keeps what is logged.
type scene struct {
	*testing.T
	log strings.Builder
}

func (s *scene) Run(_ string, f func(testscript.T)) { f(s) }
func (s *scene) Log(args ...any)                    { fmt.Fprintln(&s.log, args...) }
func (s *scene) Fatal(args ...any)                  { s.Log(args...); s.FailNow() }
func (s *scene) FailNow()                           { panic(s) }
func (s *scene) Parallel()                          {}
func (s *scene) Verbose() bool                      { return false }

// The failure of a script that shows two inside at once, or work that was done twice, is not repeated by .ci/again.
// That a lease ran out first explains it.
func TestSecondHolderIsABrokenPromise(t *testing.T) {
	const holder = "start holder sh -c 'echo runs; exec sleep 60'\nwait-line holder.out runs\n"
	slow := strings.Replace(holder, "echo runs;", `echo "lost: %s" >&2; echo runs;`, 1)
	const enters = `sh -c 'exec "$@"' sh echo never` + "\n" // as a lock that excludes nobody
	for name, c := range map[string]struct {
		script string
		broken bool
	}{
		"in front":            {holder + "code 75 " + enters, true},
		"in time":             {holder + "within 10s 75 " + enters, true},
		"in the background":   {holder + "start next " + enters + "ends next 75\n", true},
		"done twice":          {"code 0 " + enters, true},
		"did not wait":        {holder + "start next echo its turn\nwait-line next.err 'waiting: it is held'\n", true},
		"nobody is inside":    {"start next echo its turn\nends next 0\nstart last true\nends last 1\n", false},
		"the lease ran out":   {fmt.Sprintf(slow, "expired") + "code 75 " + enters, false},
		"the store was away":  {fmt.Sprintf(slow, "unreachable: timeout") + "code 75 " + enters, false},
		"the lease was taken": {fmt.Sprintf(slow, "taken") + "code 75 " + enters, true},
		"another exit code":   {holder + "code 75 false\n", false},
		"another's output":    {holder + "code 75 echo never mind\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "scene.txtar"), []byte(c.script), 0o600); err != nil {
				t.Fatal(err)
			}
			s := &scene{T: t}
			func() {
				defer func() {
					if r := recover(); r != nil && r != any(s) {
						panic(r)
					}
				}()
				testscript.RunT(s, params(t, folder, nil, func(*testscript.Env) error { return nil }))
			}()
			text := s.log.String()
			if !strings.Contains(text, "FAIL: ") || strings.Contains(text, "promise broken: ") != c.broken {
				t.Errorf("want a broken promise: %v, got:\n%s", c.broken, text)
			}
		})
	}
}
