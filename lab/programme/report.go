package programme

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Report is what came of a programme. It prints as JSON, Markdown and HTML.
type Report struct {
	Began     time.Time     `json:"began"`
	Took      time.Duration `json:"took"`
	Seed      uint64        `json:"seed"`
	Command   string        `json:"command,omitempty"` // that played it, to play it again
	Machine   Machine       `json:"machine"`
	Scenarios []Cell        `json:"scenarios,omitempty"`
	Live      []Campaign    `json:"live,omitempty"`
	Virtual   []Campaign    `json:"virtual,omitempty"`
	Mutants   []Mutant      `json:"mutants,omitempty"`
	LeftOut   []string      `json:"leftOut,omitempty"`
}

// Machine is what it was played on, and with which versions.
type Machine struct {
	Go    string   `json:"go"`
	OS    string   `json:"os"`
	CPUs  int      `json:"cpus"`
	Redis string   `json:"redis,omitempty"`
	Peers []string `json:"peers,omitempty"` // module@version
}

func machine() Machine {
	m := Machine{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		for _, word := range strings.Fields(string(out)) {
			if v, ok := strings.CutPrefix(word, "v="); ok {
				m.Redis = v
			}
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains([]string{"github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "github.com/redis/rueidis", "github.com/redis/go-redis/v9",
				"github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "modernc.org/sqlite", "go.etcd.io/etcd/client/v3", "github.com/go-zookeeper/zk"}, d.Path) {
				m.Peers = append(m.Peers, d.Path+" "+d.Version)
			}
		}
	}
	return m
}

// ErrBroke: Holdfast did not keep a promise.
var ErrBroke = errors.New("holdfast broke")

// ErrLab: the lab failed: it did not show what it must.
var ErrLab = errors.New("the lab failed")

// Err is nil if all was as it should be. Errors: ErrBroke, ErrLab.
func (r Report) Err() error {
	bad := r.Bad()
	if len(bad) == 0 {
		return nil
	}
	kind := ErrLab
	if slices.ContainsFunc(bad, func(text string) bool { return !strings.HasPrefix(text, ErrLab.Error()) }) {
		kind = ErrBroke
	}
	return fmt.Errorf("%w:\n%s", kind, strings.Join(bad, "\n"))
}

// Bad lists what was not as it should be.
func (r Report) Bad() (out []string) {
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	for _, c := range r.Scenarios {
		add(c.Bad())
	}
	for _, c := range slices.Concat(r.Live, r.Virtual) {
		add(c.Bad())
	}
	for _, m := range r.Mutants {
		add(m.Bad())
	}
	return out
}

// Verdict is the whole in a sentence.
func (r Report) Verdict() string {
	switch err := r.Err(); {
	case errors.Is(err, ErrBroke):
		return "Holdfast broke."
	case err != nil:
		return "The lab failed: it did not show all that it must."
	case len(r.LeftOut) > 0:
		return "Holdfast held in all that was played."
	}
	return "Holdfast held, and every expected hole showed in every run."
}

// Line is a row of the table of scenarios: the lock with the hole, and Holdfast.
type Line struct {
	Scenario, Hole, Row string
	Old                 *Cell
	Holdfast            []Cell
}

// Lines are the rows of the table: those of old locks, or those of other libraries.
func (r Report) lines(peers func(row string) bool) (out []Line) {
	for _, c := range r.Scenarios {
		if !peers(c.Row) {
			continue
		}
		i := slices.IndexFunc(out, func(l Line) bool { return l.Scenario == c.Scenario })
		if i < 0 {
			i = len(out)
			out = append(out, Line{Scenario: c.Scenario, Hole: c.Hole, Row: c.Row})
		}
		if c.Expect == Hole {
			out[i].Old = &c
		} else {
			out[i].Holdfast = append(out[i].Holdfast, c)
		}
	}
	return out
}

// Old are the rows of the locks that people copy.
func (r Report) Old() []Line { return r.lines(func(row string) bool { return !peer(row) }) }

// Peers are the rows of other libraries.
func (r Report) Peers() []Line { return r.lines(peer) }

// peer reports whether a subject is another library: no lock that people copy, and
// not Holdfast.
func peer(id string) bool {
	return !ours(id) && !slices.ContainsFunc(subject.Old(), func(s subject.Subject) bool { return s.ID == id })
}

// Random are all random campaigns.
func (r Report) Random() []Campaign { return slices.Concat(r.Live, r.Virtual) }

// Controls are those that were played beside the campaigns.
func (r Report) Controls() (all []live.ControlResult) {
	for _, c := range r.Live {
		all = append(all, c.Controls...)
	}
	return all
}

// Short is a duration to read.
func Short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 10*time.Minute:
		return d.Round(time.Minute).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Versions are the versions of all that took part, in a line.
func (r Report) Versions() string {
	all := []string{r.Machine.Go, r.Machine.OS, fmt.Sprintf("%d CPUs", r.Machine.CPUs)}
	if r.Machine.Redis != "" {
		all = append(all, "Redis "+r.Machine.Redis)
	}
	return strings.Join(append(all, r.Machine.Peers...), ", ")
}
